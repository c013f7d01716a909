"""Making tasks from a repository: `maker.py` puts the pieces together."""
