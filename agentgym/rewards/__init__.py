"""Verifiers: programs that decide whether an answer is correct."""
