"""Base class of all text environments."""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from types import FunctionType
from typing import Self, cast, final

import gymnasium
import numpy as np

from agentgym.core.actions import Call, Tool, parse_call, unreadable
from agentgym.core.declared import Declarations
from agentgym.core.definition import Definition
from agentgym.core.hints import first_share, solution
from agentgym.core.names import guarded, refuse_taken, reserved_names, then_settled, until_it_ends
from agentgym.core.outcome import (
    SUCCESS,
    Info,
    Outcome,
    RoleReward,
    Snapshot,
    broken_off,
    copied,
    returned,
    role_outcomes,
    shaping,
)
from agentgym.core.seeding import generator
from agentgym.core.spaces import Unicode
from agentgym.core.tasks import Task
from agentgym.core.verdicts import amounts, ended, verdict
from agentgym.errors import BadConfig, EpisodeOver, Fault, Reason, UnknownName, no_such

MOVED = dict.fromkeys((entry.name for entry in fields(Declarations)), "`declared = Declarations(…)` (agentgym.Declarations)")
MAX_ACTION = 100_000  # characters; a longer action is invalid, whatever the environment


class TextEnv(Definition, gymnasium.Env[str, str]):
    """A text environment: one task per episode, text in, text out.

    A subclass defines `begin(task) -> observation`, then either `act(action)` or methods marked `@tool`, and `state()`,
    `oracle()`, `expert()` and `generate(rng, difficulty)`. This class provides the rest: splits, seeds, info, horizon,
    snapshots and shaping. `reset` and `step` are Gymnasium's.
    """

    metadata: dict[str, list[str]] = {"render_modes": ["ansi"]}  # noqa: RUF012  # Gymnasium declares it so
    render_mode: str | None = None
    task: Task
    seed: int
    turn: int
    limit: int
    """Maximum number of turns of this episode, after which it is truncated."""
    success: bool | None
    totals: dict[str, float]
    """The reward of the episode so far, by role."""
    outcomes: dict[str, RoleReward]
    """Each role's reward for the outcome, and its success; empty until the episode is over."""
    observation: str
    tools: dict[str, Tool]
    preset: str | None
    _chooser: np.random.Generator | None
    _running: bool
    _levels: dict[str, float]
    _own: frozenset[str]

    def __init_subclass__(cls, replaces: tuple[str, ...] = ()) -> None:
        """Reject a subclass that uses a reserved name of this class; `replaces` lists names that it overrides on purpose."""
        super().__init_subclass__()
        refuse_taken(cls, TextEnv, cls.settings, MOVED, replaces)
        for name in ("oracle", "expert"):
            method = vars(cls).get(name)
            if isinstance(method, FunctionType) and method is not getattr(TextEnv, name):
                setattr(cls, name, until_it_ends(method))
        if "__init__" in vars(cls):
            cls.__init__ = then_settled(cls.__init__)

    def __init__(self, *, preset: str | None = None, render_mode: str | None = None, **options: object) -> None:
        kind = type(self).__name__
        if preset is not None and preset not in self.presets:
            raise UnknownName(no_such(f"preset of {kind}", preset, self.presets))
        options = {**self.presets.get(preset or "", {}), **options}
        for name, value in options.items():
            if name not in self.option_names():
                raise BadConfig(no_such(f"option of {kind}", name, ("preset", *self.option_names())))
            if value is not None:
                setattr(self, name, value)
        self.preset, self.render_mode = preset, render_mode
        self.requires()
        self.check_options()
        self.observation_space, self.action_space = Unicode(), Unicode(MAX_ACTION)
        self.tools = {
            member.__tool__.name: member.__tool__
            for klass in reversed(type(self).__mro__)
            for member in vars(klass).values()
            if hasattr(member, "__tool__")
        }
        self._chooser, self._pools = None, {}
        self.task = Task()
        self.seed = self.turn = self.limit = 0
        self.success = None
        self.totals, self.outcomes = {}, {}
        self.observation = ""
        self._running = False
        self._levels = {}
        self._np_random = generator(0)
        guarded(self, TextEnv, self.setup, "setup")
        self._settle()

    def _settle(self) -> None:
        """Record the current attributes as the environment's; later ones belong to the episode and its snapshots."""
        self._own = frozenset(self.__dict__) | {"_own", "spec", "_np_random_seed"}

    @final
    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the keywords of the constructor, without `preset` and `render_mode`."""
        return ("split", "difficulty", "horizon", "feedback", "shaping", "pool", "pool_file", *cls.settings)

    def check_options(self) -> None:
        kind = type(self).__name__
        by_default = "split" not in vars(self) and self.splits is not type(self).splits  # a file may lack that split
        if self.split not in self.splits and not by_default:
            raise UnknownName(no_such(f"split of {kind}", self.split, self.splits))
        _integer(f"difficulty of {kind}", self.difficulty, 0)
        _integer(f"horizon of {kind}", self.horizon, 1)
        self.check_pool()
        if self.feedback not in ("helpful", "genuine"):
            raise BadConfig(f"feedback of {kind} is {self.feedback!r}; expected 'helpful' or 'genuine'")
        weights = dict(self.shaping)
        if SUCCESS in weights or not all(weight >= 0 for weight in weights.values()) or not sum(weights.values()) < 1:
            raise BadConfig(
                f"shaping of {kind} is {weights}; expected weights of measures other than 'success', "
                "each 0 or more, that sum to less than 1, the reward of success"
            )
        if self.render_mode not in (None, *self.metadata["render_modes"]):
            raise BadConfig(f"render_mode of {kind} is {self.render_mode!r}; expected 'ansi' or None")

    def state_key(self) -> str | None:
        """Return a hash of task id, role and `state()`, None if the state is None. Override it for large states."""
        state = self.state()
        if state is None:
            return None
        return hashlib.blake2b(f"{self.task.id}\x1f{self.role}\x1f{state!r}".encode(), digest_size=8).hexdigest()

    def save(self) -> object:
        """Return a payload from which `load` restores the state; by default a copy of what `begin` and `act` have set."""
        mine = {k: v for k, v in self.__dict__.items() if k not in self._own and k not in self.shared}
        return copied(mine, type(self).__name__), {k: self.__dict__[k] for k in self.shared if k in self.__dict__}

    def load(self, payload: object) -> None:
        """Restore the state from a payload of `save` without modifying it; an override raises Fault if the state is lost."""
        mine, shared = cast("tuple[dict[str, object], dict[str, object]]", payload)
        self.forget()
        self.__dict__.update(copy.deepcopy(mine))
        self.__dict__.update(shared)

    # What an environment returns from `act`

    @final
    def win(self, text: str) -> Outcome:
        """Return the outcome of an action that solves the task: the episode ends with reward 1."""
        return Outcome(text, success=True)

    @final
    def lose(self, text: str) -> Outcome:
        """Return the outcome of an action after which the task cannot be solved: the episode ends with reward 0."""
        return Outcome(text, success=False)

    @final
    def invalid(self, text: str, error: str | None = None) -> Outcome:
        """Return the outcome of an invalid action; with feedback `helpful`, the agent gets `error`, if given, not `text`."""
        helpful = error is not None and self.feedback == "helpful"
        return Outcome(cast("str", error) if helpful else text, valid=False, error=error or text)

    def malformed(self, error: str) -> Outcome:
        """Return the outcome of an action that is not text or not a tool call; override it to answer otherwise."""
        return self.invalid(error)

    @final
    def reward(self, text: str, **levels: float) -> Outcome:
        """Return an outcome with measures from 0 to 1; a change of a measure is paid times its weight in `shaping`."""
        return Outcome(text, measures=levels)

    # Gymnasium

    @final
    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]  # Info is the dict that Gymnasium means
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None, **others: object
    ) -> tuple[str, Info]:
        """Start an episode. Options: `task` (a Task, an id, or a number within the split; default random) and `horizon`.

        Raises:
            BadConfig: an option is unknown or has a wrong value, or other keywords are passed.
            UnknownName: no task has the given id.
        """
        if others:
            raise BadConfig(
                f"reset takes seed and options, not {', '.join(others)}. Where a trainer (TRL's environment_factory) calls "
                "reset with the columns of a dataset and offers every method as a tool, give it "
                "agentgym.integrations.trl.environment(ID)"
            )
        options = options or {}
        for name in options:
            if name not in ("task", "horizon"):
                raise BadConfig(no_such("reset option", name, ("task", "horizon")))
        limit = _integer("reset option horizon", options.get("horizon", self.horizon), 1)
        if seed is not None:
            self._chooser = generator("reset", seed)
        elif self._chooser is None:
            self._chooser = np.random.default_rng()
        self.seed = seed if seed is not None else int(self._chooser.integers(2**31))
        task = self.named_task(options.get("task"), self._chooser)
        self.forget()
        limit = limit if "horizon" in options else self.limit_of(task)
        self.task, self.turn, self.limit, self.success = task, 0, limit, None
        self.totals, self.outcomes = dict.fromkeys(self.roles, 0.0), {}
        self._levels, self._running = {}, False  # until it has begun
        self._np_random = generator(self.task.id, self.seed)
        self.observation = cast("str", guarded(self, TextEnv, partial(self._begun, task), "begin", reserved_names(TextEnv)))
        self._levels, self._running = dict(self._measured(self.measures())), True  # only a change from here on is paid
        return self.observation, self._info(Outcome(self.observation), {}, None)

    def limit_of(self, task: Task) -> int:
        """Return the maximum number of turns of an episode of this task; by default `horizon`."""
        return self.horizon

    def forget(self) -> None:
        """Delete the attributes that the previous episode set."""
        for name in [k for k in self.__dict__ if k not in self._own]:
            del self.__dict__[name]

    @final
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, action: str
    ) -> tuple[str, float, bool, bool, Info]:
        """Carry out one action; an invalid action costs a turn and does not raise.

        Raises:
            EpisodeOver: the episode is over, or `reset` was never called.
        """
        if not self._running:
            raise EpisodeOver("the episode is over (or none was started): call reset() before step()")
        self.turn += 1
        try:
            return self._advance(action)
        except Fault as fault:
            return self.break_off(fault)

    def _advance(self, action: str) -> tuple[str, float, bool, bool, Info]:
        role, reason = self.role, None
        outcome = self._respond(action)
        self.success = outcome.success
        if not (self.success is None or self.success is True or self.success is False):
            self.success = verdict(self.success, f"success of {type(self).__name__}")
        rewards = self._pay(outcome)
        terminated = self.success is not None
        truncated = not terminated and self.turn >= self.limit
        if terminated:
            reason = Reason.SUCCESS if self.success else Reason.FAILURE
        elif truncated:
            reason, self.success = Reason.HORIZON, False
        info = self._info(outcome, rewards, reason)
        reward = sum(rewards.values(), 0.0)
        self._running = not (terminated or truncated)
        by_role = None if self._running else self.role_rewards()
        if by_role is None:
            self.totals[role] += reward
            self.outcomes = {} if self._running else {role: RoleReward(rewards.get(SUCCESS, 0.0), self.success is True)}
        else:  # in place of what the last turn was paid for the outcome; shaping stays
            self.outcomes = role_outcomes(by_role, f"the role_rewards of {type(self).__name__}")
            self.totals[role] += shaping(rewards)
            for name, earned in self.outcomes.items():
                self.totals[name] = self.totals.get(name, 0.0) + earned.reward
        self.observation = outcome.text
        return outcome.text, reward, terminated, truncated, info

    def break_off(self, fault: Fault) -> tuple[str, float, bool, bool, Info]:
        """End the episode with an infrastructure error and success None, without calling the environment again."""
        self._running, self.success, self.observation = False, None, ""
        return "", 0.0, False, True, broken_off(self.task.id, valid=True, error=str(fault), reason=fault.reason)

    def _respond(self, action: str) -> Outcome:
        """Return the outcome of an action, which may be malformed."""
        if error := unreadable(action, MAX_ACTION):
            return self.malformed(error)
        if self.tools:
            call = parse_call(action, self.tools)
            if not isinstance(call, Call):
                return self.malformed(call)
            method = getattr(self, call.name)
            return returned(method(**call.arguments), method, f"tool {call.name}", self)
        return returned(self.act(action), self.act, "act", self)

    def _begun(self, task: Task) -> str:
        return returned(self.begin(task), self.begin, "begin", self).text

    def _pay(self, outcome: Outcome) -> dict[str, float]:
        """Return the named parts of the reward: the outcome, and the weighted change of each shaped measure."""
        rewards = {SUCCESS: 1.0} if self.success else {}
        if self.shaping:
            levels = {**self._levels, **self._measured(self.measures()), **self._measured(outcome.measures)}
            for name, weight in self.shaping.items():
                change = min(max(levels.get(name, 0.0), 0.0), 1.0) - min(max(self._levels.get(name, 0.0), 0.0), 1.0)
                if change:
                    rewards[name] = weight * change
            self._levels = levels
        elif outcome.measures:
            self._levels = {**self._levels, **self._measured(outcome.measures)}
        return rewards

    def _measured(self, measures: dict[str, float]) -> dict[str, float]:
        # A measure that is no finite number is refused here: as a reward it would end a training run.
        for value in measures.values():
            if type(value) is not float or value - value != 0.0:
                return amounts(measures, f"the measures of {type(self).__name__}")
        return measures

    def _info(self, outcome: Outcome, rewards: dict[str, float], reason: str | None) -> Info:
        measures = self.measures()
        levels = {**self._levels, **(self._measured(measures) if measures else {})}
        info: Info = {
            "task_id": self.task.id,
            "state_key": self.state_key(),
            "valid": outcome.valid is True or ended(outcome.valid, f"valid of {type(self).__name__}"),
            "error": outcome.error,
            "admissible": self.admissible(),
            "rewards": rewards,
            "metrics": {name: value for name, value in levels.items() if name not in self.shaping},
            "success": self.success,
            "reason": reason,
        }
        more = self.more_info()
        if not more:
            return info
        if clash := more.keys() & info.keys():
            raise TypeError(
                f"more_info of {type(self).__name__} returned {sorted(clash)}, which every info has; expected other keys"
            )
        return cast("Info", info | more)

    @final
    def snapshot(self) -> Snapshot:
        """Return the state of the episode, from which `restore` continues."""
        return Snapshot(
            task=self.task,
            seed=self.seed,
            turn=self.turn,
            horizon=self.limit,
            running=self._running,
            success=self.success,
            random_state=dict(self.np_random.bit_generator.state),
            levels=dict(self._levels),
            totals=dict(self.totals),
            outcomes=self.outcomes,
            observation=self.observation,
            payload=self.save(),
        )

    @final
    def restore(self, state: Snapshot, *, seed: int | None = None) -> Self:
        """Continue from a snapshot, taken in this or another instance, and return self; `seed` reseeds later randomness."""
        self.task, self.seed, self.turn, self.limit = state.task, state.seed, state.turn, state.horizon
        self._running, self.success, self.observation = state.running, state.success, state.observation
        self._levels, self.totals, self.outcomes = dict(state.levels), dict(state.totals), state.outcomes
        self.load(state.payload)
        chance = generator(state.task.id, state.random_state, seed)
        if seed is None:
            chance.bit_generator.state = state.random_state
        self._np_random = chance
        return self

    def hint(self, level: float) -> str:
        """Return guidance for the running task: by default the first share `level` (0 to 1) of a solution, in words.

        Only training asks for a hint. The agent sees it together with its prompt; it is neither an observation nor part
        of the state. The default uses the oracle's solution or else the expert's, and raises NotImplementedError
        without either. An override decides how much a level reveals, does not change the episode, and returns "" if it
        has no hint.
        """
        return first_share(solution(self), level)

    @final
    def info(self) -> Info:
        """Return the info of the current state, as `reset` does; call it after `restore`, which returns no info."""
        return self._info(Outcome(""), {}, None)

    def render(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return one line that describes the state of the episode."""
        return f"{self.task.id} turn {self.turn}/{self.limit} success={self.success}"


def _integer(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadConfig(f"{name} is {value!r}; expected an integer from {least}")
    return value
