"""Selections of the groups to train on, one family per file."""
