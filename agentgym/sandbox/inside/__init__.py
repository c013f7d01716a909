"""Code that runs inside sandboxes, next to hostile code: standard library only."""
