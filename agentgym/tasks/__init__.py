"""Where tasks come from: files, libraries, data sets."""
