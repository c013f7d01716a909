"""Grading of programs by tests and checks that the program never sees."""
