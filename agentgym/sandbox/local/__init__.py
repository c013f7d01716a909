"""What the sandboxes of this machine have in common, outside of them."""
