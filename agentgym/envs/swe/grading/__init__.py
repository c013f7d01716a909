"""Whether a repository is repaired: tests in one sandbox, the code they test in another."""
