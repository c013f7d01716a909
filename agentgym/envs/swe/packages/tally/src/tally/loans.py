"""Loans that are paid back in equal monthly payments."""

from decimal import Decimal

from tally.money import Money


def monthly_payment(principal, yearly_percent, months):
    """Return the payment that pays a loan back in so many months; interest is due each month."""
    if months < 1:
        raise ValueError(f"months is {months}; expected at least 1")
    rate = Decimal(str(yearly_percent)) / 1200
    if rate == 0:
        return principal / months
    factor = (1 + rate) ** months
    return Money.of(principal.amount * rate * factor / (factor - 1), principal.currency)


def schedule(principal, yearly_percent, months):
    """Return (interest, repaid, balance) for each month; the last payment takes what rounding has left."""
    payment = monthly_payment(principal, yearly_percent, months)
    balance, lines = principal, []
    for month in range(1, months + 1):
        interest = balance.percent(Decimal(str(yearly_percent)) / 12)
        repaid = balance if month == months else min(payment - interest, balance)
        balance = balance - repaid
        lines.append((interest, repaid, balance))
    return lines


def balance_after(principal, yearly_percent, months, paid):
    """Return what is owed after so many payments."""
    if paid <= 0:
        return principal
    return schedule(principal, yearly_percent, months)[min(paid, months) - 1][2]
