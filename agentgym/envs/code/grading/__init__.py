"""Whether a program is right: tests and checks that it never sees."""
