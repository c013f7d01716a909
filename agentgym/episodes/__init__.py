"""What was played: turns, episodes, groups and their file."""
