"""Container sandboxes, by Docker or Podman."""
