"""Branching methods, one per module: they choose the branches of a group that are played next."""
