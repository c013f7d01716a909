"""Live view of a run: reads its files incrementally, for a web page and a terminal view."""
