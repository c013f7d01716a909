"""Whether a run fits a device and how long it takes, before it starts: `forecast.forecast` says all of it."""
