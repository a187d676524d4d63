"""Properties of a whole model: what no valid record, or pair of records, can do."""
