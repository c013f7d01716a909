"""Kuhn poker: its rules, strategies as tables, exact values, best responses and exploitability."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Protocol

from agentgym.errors import BadData

CARDS = "JQK"
"""The three cards, in rising order."""
DEALS = tuple(first + second for first, second in itertools.permutations(CARDS, 2))
"""The six deals; the side that moves first has the first card."""
PASS, BET = "p", "b"
"""The two moves: check or fold, and bet or call."""
OPEN = ("", "p", "b", "pb")
"""Histories of an unfinished hand."""
SEATS = (("", "pb"), ("p", "b"))
"""Histories after which the first side moves, and those after which the second side moves."""
NASH_VALUE = -1 / 18
"""Chips per hand of the side that moves first, if both play an equilibrium."""

Strategy = Mapping[str, float]
"""Probability of a bet or call by card and history, such as `Qpb`: a queen, after a check and a bet."""


class _Turn(Protocol):
    @property
    def observation(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def valid(self) -> bool: ...


def words(history: str) -> tuple[str, str]:
    """Return the words for PASS and BET after a history, such as `fold` and `call`."""
    return ("fold", "call") if history.endswith(BET) else ("check", "bet")


def describe_moves(history: str) -> str:
    """Return a history in words, such as `check, bet`."""
    return ", ".join(words(history[:place])[move == BET] for place, move in enumerate(history)) or "none"


def payoff(deal: str, history: str) -> int:
    """Return the chips that the first side wins; the history must be complete."""
    if history.endswith(BET + PASS):  # a fold: its side loses the ante
        return 1 if len(history) % 2 == 0 else -1
    stake = 2 if history.endswith(BET) else 1
    return stake if CARDS.index(deal[0]) > CARDS.index(deal[1]) else -stake


def value(first: Strategy, second: Strategy, deals: Iterable[str] = DEALS) -> float:
    """Return the expected chips per hand, over equally likely `deals`, of the side that plays `first` and moves first."""
    values = [_expected(first, second, deal, "") for deal in deals]
    return sum(values) / len(values)


def _expected(first: Strategy, second: Strategy, deal: str, history: str) -> float:
    if history not in OPEN:
        return float(payoff(deal, history))
    seat = len(history) % 2
    bet = (first, second)[seat][deal[seat] + history]
    branches = ((PASS, 1 - bet), (BET, bet))
    return sum(chance * _expected(first, second, deal, history + move) for move, chance in branches if chance)


def best_response(strategy: Strategy, seat: int) -> float:
    """Return the most chips per hand that the side in `seat` can win against a strategy, by trying its 64 pure strategies.

    `seat` is 0 for the side that moves first, else 1.
    """
    sets = [card + history for card in CARDS for history in SEATS[seat]]
    pure = (dict(zip(sets, bets, strict=True)) for bets in itertools.product((0.0, 1.0), repeat=len(sets)))
    return max(value(plan, strategy) if seat == 0 else -value(strategy, plan) for plan in pure)


def exploitability(strategy: Strategy) -> float:
    """Return the mean chips per hand that best responses win against a strategy in both seats; 0 in an equilibrium.

    Equals OpenSpiel's NashConv divided by the number of players.
    """
    return (best_response(strategy, 0) + best_response(strategy, 1)) / 2


def equilibrium(alpha: float = 1 / 3) -> dict[str, float]:
    """Return the equilibrium in which the first side bluffs with a jack at rate `alpha`, from 0 to 1/3.

    Source: H. W. Kuhn, A Simplified Two-Person Poker, 1950. All equilibria of the game have this form.
    """
    return {
        **{"J": alpha, "Q": 0.0, "K": 3 * alpha, "Jpb": 0.0, "Qpb": alpha + 1 / 3, "Kpb": 1.0},
        **{"Jp": 1 / 3, "Qp": 0.0, "Kp": 1.0, "Jb": 0.0, "Qb": 1 / 3, "Kb": 1.0},
    }


def strategy_of(turns: Iterable[_Turn], unseen: float | None = None) -> dict[str, float]:
    """Return the share of bets and calls by card and history over turns of `rlvr/KuhnPoker-v0`.

    `unseen` is the probability for a card and history without turns.

    Raises:
        BadData: `unseen` is None, and some card and history has no turn.
    """
    counts = {card + history: [0, 0] for card in CARDS for history in OPEN}
    histories = {describe_moves(history): history for history in OPEN}
    for turn in turns:
        if turn.valid:
            _, _, tail = turn.observation.rpartition("Your card: ")
            card, _, moves = tail.partition(". Moves: ")
            history = histories[moves.partition(". Reply")[0]]
            counts[card + history][" ".join(turn.action.split()) == words(history)[1]] += 1
    if unseen is None and (missing := [name for name, pair in counts.items() if not sum(pair)]):
        raise BadData(
            f"no turn was played at {', '.join(missing)} (card, then p for check and b for bet); play more hands, or give "
            "`unseen`, the probability of a bet or call there"
        )
    return {name: pair[1] / sum(pair) if sum(pair) else float(unseen or 0.0) for name, pair in counts.items()}
