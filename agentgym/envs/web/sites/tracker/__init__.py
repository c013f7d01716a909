"""A project tracker: issues, labels, milestones, members, merge requests."""
