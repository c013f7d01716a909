"""How all sites write dates, times and amounts."""

from datetime import date, datetime


def day(value: str | date | datetime) -> str:
    """Write a date as on all sites: 5 March 2026."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{when.day} {when:%B %Y}"


def moment(value: str | datetime) -> str:
    """Write a date and a time: 5 March 2026, 09:30."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{day(when)}, {when:%H:%M}"


def money(cents: int) -> str:
    """Write an amount of cents: $12.50."""
    return f"${cents / 100:,.2f}"
