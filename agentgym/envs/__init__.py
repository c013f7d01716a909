"""The environments, in one file or folder each; no environment imports another."""
