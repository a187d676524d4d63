"""assay inside other tools: pytest, model cards."""
