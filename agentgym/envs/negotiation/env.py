"""The environment: two sides divide items without seeing each other's values."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task, TextEnv
from agentgym.core.outcome import RoleReward
from agentgym.envs.negotiation import deals, expert, shortcuts
from agentgym.envs.negotiation.deals import Share
from agentgym.envs.negotiation.scripted import answered, succeeds, wins
from agentgym.envs.negotiation.text import amounts, division, statement
from agentgym.errors import BadConfig

KINDS = ("book", "hat", "ball", "cup", "lamp", "coin", "drum", "kite")
SCORINGS = ("competitive", "cooperative")


class Negotiation(TextEnv):
    """Divide items with another side so that you, or both sides together, get enough points.

    All items together are worth the same number of points to each side, and neither side sees the other's points. A side
    makes an offer, which lists the items it takes (`propose 1 0 2`), or accepts the other side's last offer. Without a deal
    nobody gets anything.

    `scoring="competitive"`: a side succeeds with more points than in the fairest deal, the one with the greatest product
    of both sides' points (Nash's bargaining solution); no deal lets both sides succeed. `scoring="cooperative"`: both
    sides succeed with a deal that has the maximum total.

    The `scripted` opponent demands less with every offer, in even steps from all of its points down to a hidden floor. It
    accepts a deal worth at least its current demand. Otherwise it makes the offer closest to your last one that is worth
    its next demand. With `opponent="self"`
    the same rollout plays both roles, A first; `success` is A's, and `role_rewards()` returns the rewards of both roles. The
    oracle plays for A, even when B moves. Declared bounds apply to `scripted`.

    Items and points grow with difficulty: 5 items of 3 kinds worth 10 points at difficulty 0, up to 9 items of 5 kinds,
    and 2 more points at each level without bound. No task is won by always making the same simple offer (nothing,
    everything, or an even split), or by making one and then accepting the first offer.
    """

    roles = ("A", "B")
    splits: Mapping[str, float] = MappingProxyType({"train": 0.6, "valid": 0.2, "test": 0.2})
    task_settings = ("opponent", "scoring", "rounds")
    settings = task_settings
    opponent: str = "scripted"
    """The opponent: `scripted`, or `self`, which lets the same agent play both roles."""
    scoring: str = "competitive"
    """Success criterion: `competitive`, more points than in the fairest deal; `cooperative`, the maximum total."""
    rounds: int = 6
    """Number of offers that A may make, at least 2; B may make one fewer."""
    horizon = 20
    declared = Declarations(random_bound=0.1, expert_bound=0.6)

    def check_options(self) -> None:
        if self.opponent not in ("scripted", "self"):
            raise BadConfig(f"opponent is {self.opponent!r}; expected 'scripted' or 'self'")
        if self.scoring not in SCORINGS:
            raise BadConfig(f"scoring is {self.scoring!r}; expected one of {', '.join(map(repr, SCORINGS))}")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 2:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"rounds of Negotiation is {self.rounds!r}; expected an integer from 2")
        if self.shaping and self.opponent == "self":
            raise BadConfig(
                f"shaping of Negotiation is {dict(self.shaping)} with opponent 'self': its measures are A's, and would be "
                "paid to whichever role moved last; leave one of the two out"
            )
        super().check_options()

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        kinds, things, total = min(3 + difficulty // 2, 5), min(5 + difficulty, 9), 10 + 2 * difficulty
        while True:
            draw = deals.drawn(rng, kinds, things, total)
            names = [KINDS[int(place)] for place in rng.permutation(len(KINDS))[:kinds].tolist()]
            if draw is None:
                continue
            task = self._task(names, *draw)
            if task is not None and not any(wins(task.data, say) for say in shortcuts.fixed(task.data["counts"])):
                return task

    def _task(self, names: list[str], counts: Share, values: tuple[Share, Share]) -> Task | None:
        """Return the task; None if no deal lets A succeed, or if every such deal leaves B without points."""
        got = [deals.points(counts, values, share) for share in deals.divisions(counts)]
        if self.scoring == "cooperative":
            goals = (deals.best_total(counts, values),) * 2
            good = [pair for pair in got if sum(pair) >= goals[0]]
        else:
            goals = (deals.fair(counts, values)[0] + 1, deals.fair(counts, values)[1] + 1)
            good = [pair for pair in got if pair[0] >= goals[0]]
        floor = max((pair[1] for pair in good), default=0)
        if floor < 1:
            return None
        data = {"names": names, "counts": counts, "values": values, "goals": goals, "floor": floor}
        return Task(instruction="Make a good deal.", data={**data, "scoring": self.scoring, "rounds": self.rounds})

    def split_key(self, task: Task) -> object:
        """Return the counts and values of the kinds, regardless of their names and order."""
        kinds = zip(task.data["counts"], *task.data["values"], strict=True)
        return sorted(kinds), task.data["scoring"], task.data["rounds"]

    # The episode

    def begin(self, task: Task) -> str:
        self.counts: Share = tuple(task.data["counts"])
        self.offers: tuple[Share, ...] = ()
        """A's share in each offer so far; A and B alternate, and A begins."""
        self.deal: Share | None = None
        return self._picture(rules=True)

    @property
    def role(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # the number of offers says it
        return self.roles[len(self.offers) % 2] if self.opponent == "self" and "offers" in self.__dict__ else self.roles[0]

    @property
    def place(self) -> int:
        """Index of the role to move."""
        return self.roles.index(self.role)

    @property
    def last(self) -> int:
        """Number of A's last offer, counting the offers of both sides from 1."""
        return 2 * int(self.task.data["rounds"]) - 1

    def act(self, action: str) -> str | Outcome:
        share = self._read(action)
        if isinstance(share, Outcome):
            return share
        if share is None:
            return self._closed(self.offers[-1])
        self.offers = (*self.offers, share if self.place == 0 else deals.rest(self.counts, share))
        if self.opponent == "self":
            if len(self.offers) > self.last:
                return self.lose("No more offers can be made. There is no deal.")
            return self._picture(rules=len(self.offers) == 1)
        answer = answered(self.task.data, share, len(self.offers))
        if answer is None:
            return self._closed(share)
        if len(self.offers) >= self.last:
            return self.lose("The other side declines your last offer. There is no deal.")
        self.offers = (*self.offers, answer)
        return self._picture()

    def _read(self, action: str) -> Share | Outcome | None:
        """Return the share a reply asks for, None if it accepts, or the outcome of an invalid reply."""
        words = action.split()
        if words == ["accept"]:
            if not self.offers:
                return self.invalid(f"There is no offer to accept yet. Make one, for example {self._example()}.")
            return None
        share = tuple(int(word) for word in words[1:] if word.isascii() and word.isdigit() and len(word) < 4)
        if words[:1] == ["propose"] and len(share) == len(words) - 1 == len(self.counts):
            if all(amount <= count for amount, count in zip(share, self.counts, strict=True)):
                return share
            return self.invalid(f"There are only {amounts(self.task.data['names'], self.counts)}.")
        excerpt = " ".join(words)[:40]
        return self.invalid(f"{excerpt!r} is not a move. Reply with an offer such as {self._example()}, or with accept.")

    def _example(self) -> str:
        return f"propose {' '.join(str(count // 2) for count in self.counts)}"

    def _closed(self, share: Share) -> Outcome:
        self.deal = share
        text = f"It is a deal: {division(self.task.data['names'], self.counts, share, self.opponent == 'self')}."
        return self.win(text) if succeeds(self.task.data, share) else self.lose(text)

    def _picture(self, *, rules: bool = False) -> str:
        place, offer = self.place, self.offers[-1] if self.offers else None
        left = (self.last - len(self.offers) + 1 + (place == 0)) // 2
        return statement(self.task.data, place, offer, left, rules=rules)

    def admissible(self) -> list[str]:
        offers = [f"propose {' '.join(map(str, share))}" for share in deals.divisions(self.counts)]
        return [*offers, "accept"] if self.offers else offers

    def state(self) -> object:
        return self.offers[-1:], len(self.offers), self.deal

    def measures(self) -> dict[str, float]:
        """Return `points`, A's part of the points of all items, and `efficient`, 1 if the deal is Pareto-efficient, else 0.

        Without a deal both are 0.
        """
        if self.deal is None:
            return {"points": 0.0, "efficient": 0.0}
        values = self.task.data["values"]
        mine = deals.worth(self.deal, values[0]) / deals.worth(self.counts, values[0])
        return {"points": mine, "efficient": float(self.deal in deals.frontier(self.counts, values))}

    def role_rewards(self) -> dict[str, RoleReward]:
        won = [self.deal is not None and succeeds(self.task.data, self.deal, place) for place in range(len(self.roles))]
        if self.opponent != "self":
            won[1] = False
        return {role: RoleReward(float(success), success) for role, success in zip(self.roles, won, strict=True)}

    # Policies

    def oracle(self) -> Iterator[str]:
        """Yield moves to a deal in which A succeeds: accept such a deal, else propose the best such deal for B."""
        values = self.task.data["values"]
        while True:
            good = [share for share in deals.divisions(self.counts) if succeeds(self.task.data, share)]
            if self.offers and self.offers[-1] in good:
                yield "accept"
            best = max(good, key=lambda share: (deals.points(self.counts, values, share)[1], share))
            yield f"propose {' '.join(map(str, best if self.place == 0 else deals.rest(self.counts, best)))}"

    def expert(self) -> Iterator[str]:
        while True:
            yield expert.move(self)

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return shortcuts.shortcuts()
