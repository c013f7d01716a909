"""Double entry bookkeeping."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from tally.money import Money


class LedgerError(ValueError):
    """An entry that does not balance, or moves what is not there."""


@dataclass(frozen=True)
class Entry:
    """Money that moves between accounts: what comes into an account is positive, and all sums up to nothing."""

    day: date
    text: str
    moves: tuple

    def __post_init__(self):
        if len(self.moves) < 2:
            raise LedgerError("an entry needs at least two accounts")
        sums = defaultdict(int)
        for _, money in self.moves:
            sums[money.currency] += money.coins
        for currency, coins in sums.items():
            if coins:
                raise LedgerError(f"entry does not balance: {Money(coins, currency)} too much")


class Ledger:
    """Entries by day, and what the accounts hold. An account listed in `limits` may not fall below its limit."""

    def __init__(self, limits=None):
        self._entries = []
        self.limits = dict(limits or {})

    def post(self, entry):
        """Add an entry; LedgerError where an account would fall below its limit, and nothing is added."""
        for account, money in entry.moves:
            limit = self.limits.get(account)
            if limit is None or limit.currency != money.currency:
                continue
            after = self.balance(account, money.currency) + self._moved(entry, account, money.currency)
            if money.coins < 0 and after < limit:
                raise LedgerError(f"{account} would fall to {after}")
        self._entries.append(entry)
        self._entries.sort(key=lambda one: one.day)

    def transfer(self, day, source, target, money, text=""):
        """Move money from one account to another."""
        self.post(Entry(day, text, ((source, -money), (target, money))))

    @staticmethod
    def _moved(entry, account, currency):
        coins = sum(money.coins for name, money in entry.moves if name == account and money.currency == currency)
        return Money(coins, currency)

    def balance(self, account, currency="EUR", until=None):
        """Return what an account holds, at the end of a day if one is given; sub-accounts (`a:b` of `a`) included."""
        coins = 0
        for entry in self._entries:
            if until is not None and entry.day > until:
                break
            for name, money in entry.moves:
                if (name == account or name.startswith(account + ":")) and money.currency == currency:
                    coins += money.coins
        return Money(coins, currency)

    def accounts(self):
        """Return the names of all accounts, sorted."""
        return sorted({name for entry in self._entries for name, _ in entry.moves})

    def statement(self, account, currency="EUR"):
        """Return (day, text, change, balance after it) for each entry that touches an account."""
        lines, total = [], Money(0, currency)
        for entry in self._entries:
            names = [name for name, money in entry.moves if money.currency == currency]
            if account in names:
                change = self._moved(entry, account, currency)
                total = total + change
                lines.append((entry.day, entry.text, change, total))
        return lines

    def monthly(self, account, currency="EUR"):
        """Return what came in and went out of an account in each month, as (year, month) -> (in, out)."""
        months = {}
        for day, _, change, _ in self.statement(account, currency):
            came, went = months.get((day.year, day.month), (Money(0, currency), Money(0, currency)))
            if change > Money(0, currency):
                came = came + change
            else:
                went = went - change
            months[day.year, day.month] = (came, went)
        return months
