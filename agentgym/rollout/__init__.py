"""Rollouts: many episodes at once, their workers, and infrastructure errors."""
