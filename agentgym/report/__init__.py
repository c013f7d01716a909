"""Reports of runs as HTML pages and images."""
