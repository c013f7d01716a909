"""Generation methods for the episodes of a step: plain, speculative, or pruned."""
