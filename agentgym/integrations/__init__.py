"""Adapters to other trainers and harnesses: one file for each, imported only when asked for."""
