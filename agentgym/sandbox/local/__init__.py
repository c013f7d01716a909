"""Shared code of this machine's sandboxes, outside the sandbox."""
