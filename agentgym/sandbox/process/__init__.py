"""Limits without isolation, for code one trusts."""
