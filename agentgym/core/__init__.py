"""The base of everything else: environments, tasks, actions, seeds."""
