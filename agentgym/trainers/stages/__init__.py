"""The replaceable stages of a training step: protocols, tables of names, decorators."""
