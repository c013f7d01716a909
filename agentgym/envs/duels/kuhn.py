"""The environment: a match of Kuhn poker; neither side sees the other's card."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.outcome import RoleReward
from agentgym.core.tasks import Task
from agentgym.envs.duels.kuhn_rules import (
    BET,
    CARDS,
    DEALS,
    OPEN,
    PASS,
    SEATS,
    best_response,
    describe_moves,
    equilibrium,
    exploitability,
    payoff,
    value,
    words,
)
from agentgym.errors import BadConfig

RULES = (
    "Kuhn poker with the cards J, Q and K, of which K is the highest. Each side puts in 1 chip and gets one card. A bet "
    "or a call adds 1 chip. After a fold the other side wins, otherwise the higher card does. The sides take turns in "
    "moving first."
)
CAREFUL = frozenset({"K", "Kp", "Kb", "Kpb", "Qpb"})
"""Information sets (card and history) in which the expert bets or calls: the likelier move of an equilibrium."""


class KuhnPoker(TextEnv):
    """Win chips in a match of Kuhn poker, against equilibrium play or while playing both roles.

    A match has each of the six deals equally often, in random order, and the sides take turns in moving first. The
    `equilibrium` opponent plays Kuhn's equilibrium with the most bluffs; its random choices belong to the task. Success
    needs at least 1 chip, and more chips than two constant policies win: always check and fold, and always bet and
    call. Only tasks in which careful play succeeds are kept; careful play always makes the likelier move of an
    equilibrium. A match that can no longer reach the goal ends early.

    With `opponent="self"` the same rollout plays both roles, A and B, and no task is left out; if matches have few
    hands, the splits share deals. A role's reward is its share of the chips at stake, from -1 to 1, and a role succeeds
    if it has more chips than the other. In a match that is cut off, the role to move loses everything. `success` is
    A's. The oracle plays for A, even when B moves. `agentgym.envs.duels.kuhn_rules` computes the exact exploitability
    of a strategy.

    Difficulty d: 6 (d + 1) hands.
    """

    roles = ("A", "B")
    splits: Mapping[str, float] = MappingProxyType({"train": 0.6, "valid": 0.2, "test": 0.2})
    horizon = 20
    task_settings: ClassVar[tuple[str, ...]] = ("opponent", "hands")
    settings = task_settings
    opponent: str = "equilibrium"
    """The opponent: `equilibrium`, or `self`, which lets the same agent play both roles."""
    hands: int = 0
    """Number of hands per match, at least 1, in self-play only; 0: 6 (difficulty + 1)."""
    declared = Declarations(random_bound=0.35, expert_bound=1.0)

    def check_options(self) -> None:
        if self.opponent not in ("equilibrium", "self"):
            raise BadConfig(f"opponent is {self.opponent!r}; expected 'equilibrium' or 'self'")
        count: Any = self.hands
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 1000:
            raise BadConfig(f"hands of KuhnPoker is {count!r}; expected an integer from 1 to 1000, or 0")
        if count and self.opponent != "self":
            raise BadConfig(f"hands of KuhnPoker is {count} without opponent 'self': the difficulty says how many")
        if self.shaping and self.opponent == "self":
            raise BadConfig(
                f"shaping of KuhnPoker is {dict(self.shaping)} with opponent 'self': its measures are A's, and would be "
                "paid to whichever role moved last; leave one of the two out"
            )
        super().check_options()

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        while True:
            if self.opponent == "self":
                count = self.hands or 6 * (difficulty + 1)
                deals = [DEALS[i] for _ in range(-(-count // 6)) for i in _shuffled(rng, 6)][:count]
                data: dict[str, Any] = {"deals": deals, "plans": [], "goal": 1, "number": int(rng.integers(1 << 31))}
                return Task(instruction="Win chips.", data=data)
            deals = [DEALS[i % 6] for i in _shuffled(rng, 6 * (difficulty + 1))]
            plans = [_plan(rng, deal, number) for number, deal in enumerate(deals)]
            rules: tuple[Callable[[str], bool], ...] = (CAREFUL.__contains__, lambda _: False, lambda _: True)
            careful, timid, bold = (sum(_replayed(rule, *hand) for hand in _hands(deals, plans)) for rule in rules)
            goal = max(0, timid, bold) + 1
            if careful >= goal:
                return Task(instruction="Win chips.", data={"deals": deals, "plans": plans, "goal": goal, "number": 0})

    def split_key(self, task: Task) -> object:
        return task.data["deals"], task.data["plans"], task.data["number"]

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else 3 turns per hand plus 8, but at least 20."""
        return self.horizon if "horizon" in self.__dict__ else max(self.horizon, 3 * len(task.data["deals"]) + 8)

    # The episode

    def begin(self, task: Task) -> str:
        self.hand, self.history, self.chips = 0, "", 0
        """Index of the current hand, its moves so far, and A's net chips over the finished hands."""
        self.briefed: tuple[str, ...] = ()
        """Roles that were shown the rules."""
        self._answer()
        return self._picture()

    @property
    def deal(self) -> str:
        """The two cards of this hand; the side that moves first has the first card."""
        return self.task.data["deals"][self.hand]

    @property
    def seat(self) -> int:
        """Seat of the side to move: 0 if that side moved first in this hand, else 1."""
        return len(self.history) % 2

    @property
    def role(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # the moves say it
        if self.opponent != "self" or "hand" not in self.__dict__ or self._over():
            return self.roles[0]
        return self.roles[(self.hand + self.seat) % 2]

    def act(self, action: str) -> str | Outcome:
        names = words(self.history)
        word = " ".join(action.split())
        if word not in names:
            return self.invalid(f"{word[:40]!r} is not a move. Reply with {names[0]} or {names[1]}.")
        text = self._moved(BET if word == names[1] else PASS)
        if self._over():
            text = f"{text}The match is over. You have {self._purse()} chips."
            return self.win(text) if self.chips >= self.task.data["goal"] else self.lose(text)
        if self.opponent != "self" and self.chips + self._best() < self.task.data["goal"]:
            return self.lose(f"{text}You can no longer have {self.task.data['goal']} chips.")
        return text + self._picture()

    def _moved(self, move: str) -> str:
        """Make a move and the opponent's moves up to the agent's next decision; return a line for each hand that ended."""
        self.history += move
        return self._settled() + self._answer()

    def _answer(self) -> str:
        """Make the opponent's moves until the agent has to move; return a line for each hand that ended."""
        text = ""
        while self.opponent != "self" and not self._over() and (self.hand + self.seat) % 2:
            self.history += self.task.data["plans"][self.hand][self.history]
            text += self._settled()
        return text

    def _settled(self) -> str:
        """If the hand is complete, count its chips, start the next hand and return a line on the result; else return ''."""
        if self.history in OPEN:
            return ""
        won = _won(self.deal, self.history, self.hand)
        self.chips += won
        mine, other = self.deal[:: 1 if self.hand % 2 == 0 else -1]
        end = "" if self.history.endswith(BET + PASS) else f" A had {mine}, B had {other}."
        text = f"Hand {self.hand + 1}: {describe_moves(self.history)}.{end} {'A' if won > 0 else 'B'} wins {abs(won)}.\n"
        self.hand, self.history = self.hand + 1, ""
        return text

    def _over(self) -> bool:
        return self.hand >= len(self.task.data["deals"])

    def _purse(self) -> int:
        return self.chips if self.role == "A" else -self.chips

    def _picture(self) -> str:
        first, second = words(self.history)
        goal = "Win chips." if self.opponent == "self" else f"Have at least {self.task.data['goal']} chips at the end."
        rules = "" if self.role in self.briefed else f"{RULES} You are {self.role}. {goal}\n"
        self.briefed = (*self.briefed, self.role) if rules else self.briefed
        return (
            f"{rules}Hand {self.hand + 1} of {len(self.task.data['deals'])}. You have {self._purse()} chips. Your card: "
            f"{self.deal[self.seat]}. Moves: {describe_moves(self.history)}. Reply {first} or {second}."
        )

    def _best(self) -> int:
        """Return the most chips that A could still win if A knew both cards and B's plan."""
        data = self.task.data
        later = _hands(data["deals"], data["plans"])[self.hand + 1 :]
        return _most(self.deal, data["plans"][self.hand], self.hand, self.history) + sum(_most(*hand, "") for hand in later)

    def admissible(self) -> list[str]:
        return list(words(self.history)) if not self._over() else []

    def state(self) -> object:
        return self.hand, self.history, self.chips, self.briefed

    def measures(self) -> dict[str, float]:
        """Return `chips`: A's chips per finished hand, rescaled from -2..2 to 0..1; 0.5 in the first hand."""
        return {"chips": 0.5 + self.chips / (4 * max(self.hand, 1))}

    def role_rewards(self) -> dict[str, RoleReward] | None:
        if self.opponent != "self":
            return None
        if not self._over():  # else a side about to lose would write no move until the horizon
            return {side: RoleReward(-1.0 if side == self.role else 1.0, side != self.role) for side in self.roles}
        share = self.chips / (2 * max(self.hand, 1))
        return {"A": RoleReward(share, self.chips > 0), "B": RoleReward(-share, self.chips < 0)}

    # Exploitability

    probed_with: ClassVar[Mapping[str, object]] = MappingProxyType({"opponent": "self"})

    def situations(self) -> dict[str, tuple[Task, tuple[str, ...]]]:
        """Return, for each of the 12 information sets (card and history), a task and the moves that lead to the set."""
        task = self.tasks(1)[0]
        found: dict[str, tuple[Task, tuple[str, ...]]] = {}
        for card, history in itertools.product(CARDS, OPEN):
            deal = next(deal for deal in DEALS if deal[len(history) % 2] == card)
            data = {**task.data, "deals": [deal, *task.data["deals"][1:]]}
            moves = tuple(words(history[:place])[move == BET] for place, move in enumerate(history))
            found[card + history] = dataclasses.replace(task, data=data), moves
        return found

    def exploited(self, chances: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Return four numbers of a strategy, in chips per hand.

        `exploitability`; `value`, its expected chips against itself for the side that moves first; and
        `best_response_first` and `best_response_second`, the most chips that each side can win against it.

        `chances` maps each information set to the probabilities of its two moves: check or fold, and bet or call.
        """
        strategy = {name: bet for name, (_, bet) in chances.items()}
        best = {f"best_response_{seat}": best_response(strategy, place) for place, seat in enumerate(("first", "second"))}
        return {"exploitability": exploitability(strategy), "value": value(strategy, strategy), **best}

    # Policies

    def oracle(self) -> Iterator[str]:
        """Yield the best moves for A, who knows both cards and B's plan.

        In self-play A always bets and calls, and B always checks and folds.
        """
        while True:
            if self.opponent == "self":
                yield words(self.history)[self.role == "A"]
                continue
            plan = self.task.data["plans"][self.hand]
            bet = _most(self.deal, plan, self.hand, self.history + BET) > _most(
                self.deal, plan, self.hand, self.history + PASS
            )
            yield words(self.history)[bet]

    def expert(self) -> Iterator[str]:
        while True:
            yield words(self.history)[self.deal[self.seat] + self.history in CAREFUL]

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        """Return the two constant policies: always check and fold, and always bet and call."""

        def timid(observations: list[str]) -> str:
            return "fold" if observations[-1].endswith("call.") else "check"

        def bold(observations: list[str]) -> str:
            return "call" if observations[-1].endswith("call.") else "bet"

        return {"always check and fold": timid, "always bet and call": bold}


def _plan(rng: np.random.Generator, deal: str, number: int) -> dict[str, str]:
    """Return B's move after each history of a hand, drawn from an equilibrium; B moves first in hands of odd `number`."""
    strategy, seat = equilibrium(), 1 - number % 2
    return {history: BET if rng.random() < strategy[deal[seat] + history] else PASS for history in sorted(SEATS[seat])}


def _shuffled(rng: np.random.Generator, count: int) -> list[int]:
    return rng.permutation(count).tolist()


def _hands(deals: list[str], plans: list[dict[str, str]]) -> list[tuple[str, dict[str, str], int]]:
    """Return the hands of a match as (deal, B's plan, index)."""
    return [(deal, plan, number) for number, (deal, plan) in enumerate(zip(deals, plans, strict=True))]


def _won(deal: str, history: str, number: int) -> int:
    """Return the chips that A wins in a complete hand; A moves first in hands of even `number`."""
    return payoff(deal, history) * (-1) ** (number % 2)


def _most(deal: str, plan: Mapping[str, str], number: int, history: str) -> int:
    """Return the most chips that A can win in a hand from a history on, against B's plan."""
    if history not in OPEN:
        return _won(deal, history, number)
    if (number + len(history)) % 2:
        return _most(deal, plan, number, history + plan[history])
    return max(_most(deal, plan, number, history + move) for move in (PASS, BET))


def _replayed(rule: Callable[[str], bool], deal: str, plan: Mapping[str, str], number: int) -> int:
    """Return the chips that A wins in a hand if A bets when `rule(card + history)` is True."""
    history = ""
    while history in OPEN:
        seat = len(history) % 2
        own = (number + seat) % 2 == 0
        history += (BET if rule(deal[seat] + history) else PASS) if own else plan[history]
    return _won(deal, history, number)
