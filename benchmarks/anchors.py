"""Text anchors against true states: how often the same text stands for several states, and one state for several texts.

python benchmarks/anchors.py --out docs/anchors.md      expert with mistakes in place of a policy; seconds, no model
"""

import argparse
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agentgym
from agentgym.agents.policies import ExpertAgent, Noise
from agentgym.episodes.episode import Episode
from agentgym.trainers.credit.gigpo import anchor_groups

ENVS: dict[str, dict[str, Any]] = {
    "Household": {"preset": "tiny"},
    "Household, search listed": {"preset": "tiny", "search": "listed"},
    "Household, full": {"preset": "full"},
    "TextCraft": {},
    "Shop": {"preset": "tiny"},
    "Search": {"difficulty": 1},
    "SQL": {"difficulty": 2},
    "BabyAI": {},
    "FrozenLake": {},
    "Sokoban": {},
    "GuessNumber": {},
    "Wordle": {},
}
"""What is played: the name up to a comma is the environment's, with these options."""
Place = tuple[int, int]


@dataclass(frozen=True)
class Count:
    """Pairs of turns of a group."""

    same_text: int
    false: int
    """Of those with the same text: how many are in different states."""
    same_state: int
    missed: int
    """Of those in the same state: how many have different texts, or no text that counts."""


def keys(group: Sequence[Episode], anchor: str) -> dict[Place, Hashable]:
    """Return the anchor of each (episode, turn) that has one."""
    return {place: key for key, places in anchor_groups(group, anchor).items() for place in places}


def pairs(first: dict[Place, Hashable], second: dict[Place, Hashable]) -> tuple[int, int]:
    """Return the pairs of places with the same first key, and how many of them have not the same second."""
    members: dict[Hashable, dict[Hashable, int]] = defaultdict(lambda: defaultdict(int))
    for place, key in first.items():
        members[key][second.get(place, place)] += 1  # a place without a second key is like no other
    alike = sum(sum(by.values()) * (sum(by.values()) - 1) // 2 for by in members.values())
    both = sum(n * (n - 1) // 2 for by in members.values() for n in by.values())
    return alike, alike - both


def count(groups: Sequence[Sequence[Episode]]) -> Count:
    """Count the pairs of all groups."""
    total = [0, 0, 0, 0]
    for group in groups:
        text, state = keys(group, "observation"), keys(group, "state")
        found = (*pairs(text, state), *pairs(state, text))
        total = [a + b for a, b in zip(total, found, strict=True)]
    return Count(*total)


def played(env: str, options: dict[str, Any], tasks: int, mistakes: float) -> list[list[Episode]]:
    """Play tasks with groups of 8 and return the groups."""
    agent = ExpertAgent(Noise(random=mistakes))
    episodes = agentgym.collect(agent, f"rlvr/{env}-v0", env_options=options, tasks=tasks, attempts=8)
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if not episode.fault:
            groups[episode.task_id].append(episode)
    return list(groups.values())


def share(part: int, whole: int) -> str:
    """Return a share as text."""
    return f"{100 * part / whole:.1f} %" if whole else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=32, help="groups of 8 of each environment")
    parser.add_argument("--mistakes", type=float, default=0.3, help="share of the expert's turns that are random")
    parser.add_argument("--out", type=Path, help="write the table there too")
    options = parser.parse_args()
    head = ("environment", "success", "pairs, same text", "in different states", "pairs, same state", "with different texts")
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, changes in ENVS.items():
        groups = played(name.split(",")[0], changes, options.tasks, options.mistakes)
        found, episodes = count(groups), [episode for group in groups for episode in group]
        won = share(sum(episode.success is True for episode in episodes), len(episodes))
        rows.append(
            f"| {name} | {won} | {found.same_text:,} | {share(found.false, found.same_text)} | {found.same_state:,} "
            f"| {share(found.missed, found.same_state)} |"
        )
        print(rows[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
