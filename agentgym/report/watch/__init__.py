"""A run followed while it goes: its files read on from where they were left, a page of it, and a view for terminals."""
