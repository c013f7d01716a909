"""Adapters to other trainers and harnesses: one module for each, imported only if it is used."""
