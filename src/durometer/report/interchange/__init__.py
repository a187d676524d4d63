"""A run's evidence in the formats that risk and security teams store."""
