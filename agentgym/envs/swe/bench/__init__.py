"""SWE-bench: rows, containers and their evaluation."""
