"""A project tracker site: issues, labels, milestones, members, merge requests."""
