"""Container sandboxes with Docker or Podman."""
