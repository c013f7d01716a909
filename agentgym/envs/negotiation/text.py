"""Observations of a side in English: its own points and the current offer, but not the other side's points."""

from collections.abc import Sequence

from agentgym.core.tasks import Data
from agentgym.envs.negotiation.deals import Share, rest, worth

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def amounts(names: Sequence[str], share: Share) -> str:
    """Return a share in words: `two books and one hat`; `nothing` for an empty share."""
    parts = [
        f"{_number(amount)} {name}{'' if amount == 1 else 's'}" for name, amount in zip(names, share, strict=True) if amount
    ]
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "nothing"


def division(names: Sequence[str], counts: Share, share: Share, by_role: bool) -> str:
    """Return a deal in words; the first side takes `share`. The sides are A and B if `by_role`, else you and the other."""
    first, second = ("A takes", "B takes") if by_role else ("you take", "the other side takes")
    return f"{first} {amounts(names, share)}, and {second} {amounts(names, rest(counts, share))}"


def statement(data: Data, place: int, offer: Share | None, left: int, *, rules: bool) -> str:
    """Return a side's observation; `offer` is A's share in the last offer, `left` the number of offers the side has left.

    `place` is 0 for A and 1 for B. With `rules`, the observation begins with the rules.
    """
    names, counts, values = data["names"], tuple(data["counts"]), tuple(data["values"][place])
    lines = [_rules(names, counts, values, data["goals"][place], data["scoring"])] if rules else []
    if offer is None:
        lines.append("No offer has been made yet.")
    else:
        mine = offer if place == 0 else rest(counts, offer)
        lines.append(f"The other side offers you {amounts(names, mine)} ({_plural(worth(mine, values), 'point')} to you).")
    if left < 1:
        return "\n".join([*lines, "You cannot make another offer: any reply but accept ends the talks without a deal."])
    return "\n".join([*lines, f"You can make {_plural(left, 'more offer' if offer else 'offer')}."])


def _rules(names: Sequence[str], counts: Share, values: Share, goal: int, scoring: str) -> str:
    prices = [f"a {name} is worth {_plural(value, 'point')}" for name, value in zip(names, values, strict=True)]
    needed = (
        "You both succeed if no other deal would bring the two of you more points in total."
        if scoring == "cooperative"
        else f"You succeed if the deal brings you at least {goal} points."
    )
    example = tuple(count - count // 2 for count in counts)
    return (
        f"You and the other side divide {amounts(names, counts)}. To you, {', '.join(prices[:-1])} and {prices[-1]}: "
        f"{worth(counts, values)} points in all. The total is the same for the other side, but its points for each item may "
        f"differ. Neither side knows the other's points.\n{needed} Without a deal, neither side gets anything.\n"
        f"Reply with propose and the number of each item that you take, in the order above: propose "
        f"{' '.join(map(str, example))} means that you take {amounts(names, example)}, and the other side takes the rest. "
        "Reply with accept to take the other side's last offer."
    )


def _number(amount: int) -> str:
    return NUMBERS[amount] if amount < len(NUMBERS) else str(amount)


def _plural(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"
