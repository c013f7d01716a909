"""Adapters to other trainers and harnesses, one file each, imported only on request."""
