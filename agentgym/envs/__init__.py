"""The environments, one file or folder each; they never import one another."""
