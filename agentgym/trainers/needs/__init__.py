"""Needs: values per turn for credit and losses, one need per file."""
