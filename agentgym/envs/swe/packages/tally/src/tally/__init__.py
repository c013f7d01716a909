"""Money, quantities with units, and ledgers."""

from tally.ledger import Entry, Ledger, LedgerError
from tally.loans import balance_after, monthly_payment, schedule
from tally.money import CurrencyError, Money
from tally.rates import RateTable
from tally.units import Quantity, UnitError, parse_quantity

__all__ = [
    "CurrencyError",
    "Entry",
    "Ledger",
    "LedgerError",
    "Money",
    "Quantity",
    "RateTable",
    "UnitError",
    "balance_after",
    "monthly_payment",
    "parse_quantity",
    "schedule",
]
