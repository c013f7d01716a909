"""Task samplers: they choose the tasks of a step; one family per file."""
