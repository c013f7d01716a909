"""Shortcut policies, which should not succeed."""

import re
from collections.abc import Callable, Mapping

from agentgym.envs.negotiation.deals import Share, rest
from agentgym.envs.negotiation.scripted import Say

_EXAMPLE = re.compile(r"propose((?: \d+)+) means")


def fixed(counts: Share) -> list[Say]:
    """Return policies that must win no task: some repeat one offer, others make one offer and then accept anything."""
    half = tuple(count // 2 for count in counts)
    shares = [tuple(0 for _ in counts), tuple(counts), half, rest(counts, half)]

    def always(share: Share) -> Say:
        return lambda _: share

    def then_accepts(share: Share) -> Say:
        return lambda offer: share if offer is None else None

    return [policy(share) for policy in (always, then_accepts) for share in shares]


def shortcuts() -> Mapping[str, Callable[[list[str]], str]]:
    """Return policies that only repeat the example in the rules, or accept any offer."""

    def example(seen: list[str]) -> str:
        match = _EXAMPLE.search(seen[0])
        return "accept" if match is None else f"propose{match[1]}"

    return {
        "even split": example,
        "accept anything": lambda seen: "accept" if "offers you" in seen[-1] else example(seen),
    }
