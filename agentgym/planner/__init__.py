"""Predict whether a run fits a device and how long it takes; `forecast.forecast` is the entry point."""
