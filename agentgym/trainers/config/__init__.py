"""Configuration of a run: the settings of every stage, their bounds, and recipes."""
