"""Generation methods for the episodes of a step: plain, speculative, pruned, against opponents, or from stored episodes."""
