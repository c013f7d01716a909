"""What the sandboxes of this machine share, outside the sandbox."""
