"""Training data: turns as rows of tokens, packing, minibatches, stored episodes."""
