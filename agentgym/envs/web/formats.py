"""Formats of dates, times and amounts on all sites."""

from datetime import date, datetime


def day(value: str | date | datetime) -> str:
    """Return a date in the sites' format: 5 March 2026."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{when.day} {when:%B %Y}"


def moment(value: str | datetime) -> str:
    """Return a date and time in the sites' format: 5 March 2026, 09:30."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{day(when)}, {when:%H:%M}"


def money(cents: int) -> str:
    """Return an amount in cents in the sites' format: $12.50."""
    return f"${cents / 100:,.2f}"
