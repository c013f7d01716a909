"""Weight transfer from the trainer to an engine."""
