"""Amounts of money, exact to the smallest coin."""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import total_ordering

DECIMALS = {"JPY": 0, "KRW": 0, "KWD": 3, "BHD": 3}
"""Decimal places of currencies that do not have two."""
SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_TEXT = re.compile(r"(-?)\s*([$€£¥]|[A-Z]{3})?\s*(-?)([\d,]*\.?\d+)\s*([A-Z]{3})?$")


class CurrencyError(ValueError):
    """Two currencies where one was expected."""


def decimals_of(currency):
    """Return how many decimal places a currency has."""
    return DECIMALS.get(currency, 2)


@total_ordering
@dataclass(frozen=True)
class Money:
    """So many of a currency's smallest coins."""

    coins: int
    currency: str = "EUR"

    @classmethod
    def of(cls, amount, currency="EUR"):
        """Return an amount given as a number or text, rounded half to even."""
        exact = Decimal(str(amount)).scaleb(decimals_of(currency))
        return cls(int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN)), currency)

    @classmethod
    def parse(cls, text, default="EUR"):
        """Read `12.50 EUR`, `$1,200`, `-£3`; ValueError for anything else."""
        found = _TEXT.match(text.strip())
        if not found:
            raise ValueError(f"no amount of money: {text!r}")
        outer, before, inner, number, after = found.groups()
        if before and after:
            raise ValueError(f"two currencies in {text!r}")
        currency = SYMBOLS.get(before, before) or after or default
        amount = Decimal(number.replace(",", ""))
        if bool(outer) != bool(inner):
            amount = -amount
        return cls.of(amount, currency)

    @property
    def amount(self):
        """The amount as an exact decimal number."""
        return Decimal(self.coins).scaleb(-decimals_of(self.currency))

    def _same(self, other):
        if self.currency != other.currency:
            raise CurrencyError(f"{self.currency} and {other.currency} do not mix")
        return other

    def __add__(self, other):
        if other == 0:
            return self
        return Money(self.coins + self._same(other).coins, self.currency)

    __radd__ = __add__

    def __sub__(self, other):
        return Money(self.coins - self._same(other).coins, self.currency)

    def __neg__(self):
        return Money(-self.coins, self.currency)

    def __abs__(self):
        return Money(abs(self.coins), self.currency)

    def __bool__(self):
        return self.coins != 0

    def __mul__(self, factor):
        return Money.of(self.amount * Decimal(str(factor)), self.currency)

    __rmul__ = __mul__

    def __truediv__(self, other):
        if isinstance(other, Money):
            return self.amount / self._same(other).amount
        return Money.of(self.amount / Decimal(str(other)), self.currency)

    def __lt__(self, other):
        return self.coins < self._same(other).coins

    def __str__(self):
        places = decimals_of(self.currency)
        return f"{self.amount:,.{places}f} {self.currency}"

    def allocate(self, ratios):
        """Divide by ratios so that no coin is lost; coins left over go to the largest remainders, the first of equals."""
        total = sum(ratios)
        if total <= 0 or min(ratios) < 0:
            raise ValueError(f"ratios are {ratios}; expected none below 0 and a sum above it")
        sign = -1 if self.coins < 0 else 1
        whole = abs(self.coins)
        shares = [whole * ratio // total for ratio in ratios]
        order = sorted(range(len(ratios)), key=lambda place: (-(whole * ratios[place] % total), place))
        for place in order[: whole - sum(shares)]:
            shares[place] += 1
        return [Money(sign * share, self.currency) for share in shares]

    def split(self, parts):
        """Divide into parts that differ by at most one coin."""
        if parts < 1:
            raise ValueError(f"{parts} parts; expected at least 1")
        return self.allocate([1] * parts)

    def percent(self, rate):
        """Return so many per cent of it."""
        return self * (Decimal(str(rate)) / 100)
