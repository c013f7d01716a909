"""Logs of other programs as episodes, and episodes in their trajectory format."""
