"""Rates of exchange."""

from collections import deque
from decimal import Decimal

from tally.money import CurrencyError, Money


class RateTable:
    """What one unit of a currency is worth in another; chains of rates are found."""

    def __init__(self):
        self._rates = {}

    def set(self, source, target, rate):
        """Set a rate, and with it the one in the other direction."""
        rate = Decimal(str(rate))
        if rate <= 0:
            raise ValueError(f"rate is {rate}; expected more than 0")
        self._rates.setdefault(source, {})[target] = rate
        self._rates.setdefault(target, {})[source] = 1 / rate

    def path(self, source, target):
        """Return the shortest chain of currencies from one to another; CurrencyError where there is none."""
        came_from = {source: None}
        left = deque([source])
        while left:
            here = left.popleft()
            if here == target:
                chain = [here]
                while came_from[chain[-1]] is not None:
                    chain.append(came_from[chain[-1]])
                return chain[::-1]
            for neighbour in sorted(self._rates.get(here, {})):
                if neighbour not in came_from:
                    came_from[neighbour] = here
                    left.append(neighbour)
        raise CurrencyError(f"no rate from {source} to {target}")

    def rate(self, source, target):
        """Return what one unit is worth, over a chain where need be."""
        chain = self.path(source, target)
        result = Decimal(1)
        for one, two in zip(chain, chain[1:]):
            result *= self._rates[one][two]
        return result

    def convert(self, money, target, fee=0):
        """Return an amount in another currency, less a fee in per cent; nothing is taken where the currency stays."""
        if money.currency == target:
            return money
        worth = money.amount * self.rate(money.currency, target)
        return Money.of(worth * (1 - Decimal(str(fee)) / 100), target)
