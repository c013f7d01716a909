"""A run from its start to its end: what it is made of, what is checked first, what is written and measured."""
