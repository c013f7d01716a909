"""Whether a run fits a device and how long it takes, before it starts."""
