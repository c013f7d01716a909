"""Grading of a repair: tests in one sandbox, the code under test in another."""
