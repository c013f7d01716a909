"""The built-in credit algorithms: NumPy functions of groups of episodes, one file per family."""
