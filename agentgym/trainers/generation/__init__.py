"""How the episodes of a step are generated: plain, speculative, or pruned."""
