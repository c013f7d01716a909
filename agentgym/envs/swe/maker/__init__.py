"""Making tasks from a repository; `maker.py` is the entry point."""
