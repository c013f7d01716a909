"""What runs inside of sandboxes, next to hostile code: the standard library alone."""
