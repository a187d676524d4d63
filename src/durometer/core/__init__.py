"""What every room stands on: errors, random streams, devices, records, nouns as tables."""
