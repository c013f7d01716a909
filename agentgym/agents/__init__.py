"""Agents: models behind a chat template, and players that need no model."""
