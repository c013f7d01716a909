"""Which branches of a group are played next: one method per module."""
