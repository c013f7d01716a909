"""Program grading by tests and checks that the program never sees."""
