"""Generation methods for the episodes of a step: plain, speculative, pruned, or against opponents."""
