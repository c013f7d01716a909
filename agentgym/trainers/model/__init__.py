"""The model in the training step: forward pass, attention, adapters, precision."""
