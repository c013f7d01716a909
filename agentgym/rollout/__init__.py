"""Where an environment meets an agent: many episodes at once, their workers and faults."""
