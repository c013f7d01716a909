"""Episodes: turns, groups and the file format."""
