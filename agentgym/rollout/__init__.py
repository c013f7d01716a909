"""Rollouts: concurrent episodes, workers for environments, and handling of infrastructure errors."""
