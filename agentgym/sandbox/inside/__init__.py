"""What runs inside sandboxes, next to hostile code: the standard library only."""
