"""The default sandbox on Linux."""
