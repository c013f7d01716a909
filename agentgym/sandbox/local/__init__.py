"""Shared code of the backends `bubblewrap` and `process`, which runs outside the sandbox."""
