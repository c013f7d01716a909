"""What credit and losses need to know of each turn, one need per file."""
