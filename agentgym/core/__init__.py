"""What everything else is made of: environments, tasks, actions, seeds."""
