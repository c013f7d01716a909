"""The package's credit algorithms: NumPy functions of groups of episodes, one file a family."""
