"""Task sources: files, libraries, datasets."""
