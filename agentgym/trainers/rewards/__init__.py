"""Built-in rewards that a run can add to the environment's own, one per file."""
