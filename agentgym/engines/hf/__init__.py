"""The engine that runs in this process, based on transformers."""
