"""Live view of a run: incremental reading of its files, a web page, and a terminal view."""
