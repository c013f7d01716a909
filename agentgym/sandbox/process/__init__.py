"""Resource limits without isolation, for trusted code."""
