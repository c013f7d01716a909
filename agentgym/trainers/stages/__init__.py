"""What anyone can replace in a training step: protocols, tables of names, decorators."""
