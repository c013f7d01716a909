"""Logs of other programs as episodes, and episodes as documents of their trajectory format (ATIF)."""
