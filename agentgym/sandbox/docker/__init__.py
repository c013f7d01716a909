"""Sandboxes that are containers, by Docker or Podman."""
