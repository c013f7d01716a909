"""Loggers of a run's metrics."""
