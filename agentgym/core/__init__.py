"""Foundation of the package: environments, tasks, actions and seeds."""
