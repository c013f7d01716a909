"""A mail site: folders, messages, contacts."""
