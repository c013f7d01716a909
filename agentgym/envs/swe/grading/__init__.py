"""Grading of a repair: tests run in one sandbox, the code under test in another."""
