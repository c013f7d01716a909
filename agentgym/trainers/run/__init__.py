"""A run from start to end: checks, assembly, records and measurements."""
