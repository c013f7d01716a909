"""Environments: one file or folder each; siblings never import one another."""
