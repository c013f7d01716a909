"""Branching methods, one per module: they choose the turns from which a group's next episodes branch off."""
