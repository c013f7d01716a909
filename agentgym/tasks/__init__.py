"""Tasks from files: reading rows, and environments over them; also prompt-injection attacks."""
