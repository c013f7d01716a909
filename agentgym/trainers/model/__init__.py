"""The model as the training step sees it: forward pass, attention, adapters, precision."""
