"""Agents of others: functions that play by a base URL, and programs that work in the sandbox of a task."""
