"""A run from start to end: assembly, checks before it, records and measurements."""
