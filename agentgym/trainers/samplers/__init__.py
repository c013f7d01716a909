"""Task samplers: which tasks a step plays, one family per file."""
