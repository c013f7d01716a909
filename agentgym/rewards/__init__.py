"""Verifiers: programs that say whether an answer is right."""
