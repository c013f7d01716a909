"""Runs as pages and pictures that a person can read and pass on."""
