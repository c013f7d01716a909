"""One engine over several servers of the same model: routing, failures and recovery."""
