"""Adapters to trainers and harnesses of others, one file each, imported only when asked for."""
