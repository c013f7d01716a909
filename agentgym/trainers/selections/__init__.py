"""Selections: which groups of a step are trained on, one family per file."""
