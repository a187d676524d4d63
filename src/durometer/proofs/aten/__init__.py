"""Networks as small typed programs: read from torch's export, bounded operation by operation."""
