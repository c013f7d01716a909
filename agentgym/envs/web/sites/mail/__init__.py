"""Mail: folders, messages, contacts."""
