"""Reports: metrics as views of records, statistics, pitfall flags, pages."""
