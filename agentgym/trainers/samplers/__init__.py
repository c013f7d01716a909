"""Task samplers, which choose the tasks of a step; one family per file."""
