"""The text environment that every environment is: what it defines, and what comes with it."""

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import gymnasium
import numpy as np

from agentgym.core.actions import Call, Tool, parse_call
from agentgym.core.outcome import Outcome, Snapshot, copied, returned
from agentgym.core.seeding import generator
from agentgym.core.spaces import Unicode
from agentgym.core.tasks import Task, TaskSpace
from agentgym.errors import BadConfig, EpisodeOver, Fault, bad_option, unknown

INFO_KEYS = ("task_id", "state_key", "valid", "error", "admissible", "rewards", "metrics", "success", "reason")
OURS = ("task", "seed", "turn", "limit", "success", "totals", "tools")  # attributes that no environment may use for its own
MAX_ACTION = 100_000  # characters; a longer action is invalid, whatever the environment


class TextEnv(TaskSpace, gymnasium.Env[str, str]):
    """A text environment: one task per episode, text in, text out.

    An environment defines `begin(task) -> observation`, then either `act(action)` or methods marked `@tool`, and
    `state()`, `oracle()`, `expert()`, `generate(rng, difficulty)`. Everything else (splits, seeds, the info
    schema, horizon, snapshots, shaping) comes from here. `reset` and `step` are Gymnasium's.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012  # Gymnasium declares it so
    render_mode: str | None = None
    horizon: int = 50
    """Turns after which an episode is truncated; keyword and reset option of the same name."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Names of the class attributes that a caller may set by keyword; their values are the defaults."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of settings: `gym.make(id, preset="tiny")`; an explicit keyword wins over the preset."""
    shaping: Mapping[str, float] = MappingProxyType({})
    """Weights of measures that are to be paid; by default the outcome alone is."""
    feedback: str = "helpful"
    """What an invalid action is answered: `helpful`, or `genuine` (the reference implementation's words)."""
    blocking: bool = False
    """Whether a step may wait for something outside; such environments run in worker processes."""
    step_seconds: float = 0.0
    """What a step may take at least, whatever a rollout allows: for an environment that bounds its steps itself."""
    snapshot_kind: str = "exact"
    nondeterministic: str = ""
    """Why the environment cannot be repeated, where it cannot."""
    shared: tuple[str, ...] = ()
    """Attributes set by `begin` that never change afterwards: snapshots keep them by reference."""
    roles: tuple[str, ...] = ("agent",)
    random_bound: float = 0.2
    """Declared upper bound of the success of random play."""
    expert_bound: float = 0.5
    """Declared lower bound of the success of the expert."""
    answers: ClassVar[tuple[str, ...]] = ()
    """Keys of `task.data` that hold the answer: its text must not be in the first observation."""
    ceilings: ClassVar[Mapping[str, float]] = {}
    """Declared success of shortcut policies that is not 0, by name, explained in the class docstring."""

    def __init__(self, *, preset: str | None = None, render_mode: str | None = None, **options: Any) -> None:
        kind = type(self).__name__
        if preset is not None and preset not in self.presets:
            raise unknown(f"preset of {kind}", preset, self.presets)
        if taken := set(OURS) & set(self.settings):
            raise TypeError(f"settings of {kind} name {sorted(taken)}, which the base class uses: rename them")
        options = {**self.presets.get(preset or "", {}), **options}
        for name, value in options.items():
            if name not in self.option_names():
                raise bad_option(f"option of {kind}", name, ("preset", *self.option_names()))
            if value is not None:
                setattr(self, name, value)
        self.preset, self.render_mode = preset, render_mode
        self.requires()
        self._check_options()
        self.observation_space, self.action_space = Unicode(), Unicode(MAX_ACTION)
        self.tools: dict[str, Tool] = {
            member.__tool__.name: member.__tool__
            for klass in reversed(type(self).__mro__)
            for member in vars(klass).values()
            if hasattr(member, "__tool__")
        }
        self._chooser: np.random.Generator | None = None
        self.task = Task()
        self.seed = self.turn = self.limit = 0
        self.success: bool | None = None
        self.totals: dict[str, float] = {}
        self.observation = ""
        self._running = False
        self._levels: dict[str, float] = {}
        self._np_random = generator(0)
        self.setup()
        self._own: frozenset[str] = frozenset(self.__dict__) | {"_own", "spec", "_np_random_seed"}  # in no snapshot

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the keywords the constructor takes besides `preset` and `render_mode`."""
        return ("split", "difficulty", "horizon", "feedback", "shaping", *cls.settings)

    def _check_options(self) -> None:
        kind = type(self).__name__
        if self.split not in self.splits:
            raise unknown(f"split of {kind}", self.split, self.splits)
        _check_integer(f"difficulty of {kind}", self.difficulty, 0)
        _check_integer(f"horizon of {kind}", self.horizon, 1)
        if self.feedback not in ("helpful", "genuine"):
            raise BadConfig(f"feedback of {kind} is {self.feedback!r}; expected 'helpful' or 'genuine'")
        weights = dict(self.shaping)
        if "success" in weights or not all(weight >= 0 for weight in weights.values()) or not sum(weights.values()) < 1:
            raise BadConfig(
                f"shaping of {kind} is {weights}; expected weights of measures other than 'success', "
                "each 0 or more, that sum to less than 1, the reward of success"
            )
        if self.render_mode not in (None, *self.metadata["render_modes"]):
            raise BadConfig(f"render_mode of {kind} is {self.render_mode!r}; expected 'ansi' or None")

    def requires(self) -> None:
        """Raise MissingExtra, in one sentence with how to get it, where this machine lacks what the environment needs.

        Called when the environment is made, once its options are set and before they are checked; `agentgym doctor` calls
        it with the defaults. It looks for files and packages, and starts nothing. An override calls this one.
        """

    def setup(self) -> None:
        """Prepare what all episodes share (indexes, data files); called once, after the options are set."""

    # What an environment defines

    def begin(self, task: Task) -> str:
        """Set the attributes that make up the state and return the first observation."""
        raise NotImplementedError(f"{type(self).__name__} must define begin(task)")

    def act(self, action: str) -> "str | Outcome":
        """Carry out an action of an environment without tools; the string arrives untouched."""
        raise NotImplementedError(f"{type(self).__name__} must define act(action), or methods marked @agentgym.tool")

    def state(self) -> Any:
        """Return what decides the future, the turn counter and random state left out; None where it cannot be read."""
        return None

    def oracle(self) -> Iterator[str]:
        """Yield the actions of a correct solution from the present state; may know everything."""
        raise NotImplementedError(f"{type(self).__name__} defines no oracle()")

    def expert(self) -> Iterator[str]:
        """Yield good actions using only what the agent has been shown; the framework asks anew after every turn."""
        raise NotImplementedError(f"{type(self).__name__} defines no expert()")

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Return a plausible wrong action, from what was shown; None where there is none to speak of.

        Noise in demonstrations takes it where commands are not a finite list.
        """
        return None

    def admissible(self) -> list[str] | None:
        """Return the commands that are valid now, or None where they are not a finite list."""
        return None

    def health_check(self) -> None:
        """Raise a Fault where what the environment leans on fails with nothing of the agent's in it.

        A rollout asks after a step has faulted, in a fresh episode of the same task: by default nothing needs a check.
        """

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        """Return the environment's own shortcuts by name: from all observations so far to an action.

        Each must have success 0, or at most what `ceilings` declares for its name.
        """
        return {}

    def measures(self) -> dict[str, float]:
        """Return the measures of the present state (each from 0 to 1), paid only with a weight in `shaping`."""
        return {}

    @property
    def role(self) -> str:
        """Who acts next."""
        return self.roles[0]

    def role_rewards(self) -> dict[str, float] | None:
        """Return the outcome by role once an episode of an environment with several players is over, else None."""
        return None

    def state_key(self) -> str | None:
        """Return the hash of `state()`; an environment with a large state overrides it with something incremental."""
        state = self.state()
        if state is None:
            return None
        return hashlib.blake2b(f"{self.task.id}\x1f{self.role}\x1f{state!r}".encode(), digest_size=8).hexdigest()

    def save(self) -> Any:
        """Return a payload from which `load` recreates the state; by default a copy of what `begin` and `act` set."""
        mine = {k: v for k, v in self.__dict__.items() if k not in self._own and k not in self.shared}
        return copied(mine, type(self).__name__), {k: self.__dict__[k] for k in self.shared if k in self.__dict__}

    def load(self, payload: Any) -> None:
        """Recreate the state from what `save` returned, leaving the payload as it was."""
        mine, shared = payload
        self._forget()
        self.__dict__.update(copy.deepcopy(mine))
        self.__dict__.update(shared)

    # What an environment returns from `act`

    def win(self, text: str) -> Outcome:
        """The task is solved: the episode ends with reward 1."""
        return Outcome(text, success=True)

    def lose(self, text: str) -> Outcome:
        """The task can no longer be solved: the episode ends with reward 0."""
        return Outcome(text, success=False)

    def invalid(self, text: str, error: str | None = None) -> Outcome:
        """The action means nothing here. `error` explains it where `text` is the reference implementation's own words."""
        helpful = error is not None and self.feedback == "helpful"
        return Outcome(cast("str", error) if helpful else text, valid=False, error=error or text)

    def malformed(self, error: str) -> Outcome:
        """The action is no text or no call at all; an environment with a reference implementation answers in its words
        here."""
        return self.invalid(error)

    def reward(self, text: str, **levels: float) -> Outcome:
        """Report measures from 0 to 1: a rise is paid times the caller's `shaping` weight, a fall is taken back."""
        return Outcome(text, measures=levels)

    # Gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode. Options: `task` (a Task, an id, or a number of the split) and `horizon`."""
        options = options or {}
        for name in options:
            if name not in ("task", "horizon"):
                raise bad_option("reset option", name, ("task", "horizon"))
        limit = options.get("horizon", self.horizon)
        _check_integer("reset option horizon", limit, 1)
        if seed is not None:
            self._chooser = generator("reset", seed)
        elif self._chooser is None:
            self._chooser = np.random.default_rng()
        self.seed = seed if seed is not None else int(self._chooser.integers(2**31))
        task = self._chosen(options.get("task"), self._chooser)
        self._forget()
        limit = limit if "horizon" in options else self.limit_of(task)
        self.task, self.turn, self.limit, self.success = task, 0, limit, None
        self._levels, self.totals = {}, dict.fromkeys(self.roles, 0.0)
        self._np_random = generator(self.task.id, self.seed)
        held = [self.__dict__[name] for name in OURS]
        self.observation = returned(self.begin(task), self.begin, f"begin of {type(self).__name__}").text
        for name, value in zip(OURS, held, strict=True):
            if self.__dict__[name] is not value:
                raise TypeError(f"{type(self).__name__}.begin set self.{name}, which the base class uses: rename it")
        self._levels, self._running = dict(self.measures()), True  # only a change from here on is paid
        return self.observation, self._info(Outcome(self.observation), {}, None)

    def limit_of(self, task: Task) -> int:
        """Return the turns after which an episode of a task is truncated: by default `horizon`, whatever the task."""
        return self.horizon

    def _chosen(self, task: object, rng: np.random.Generator) -> Task:
        """Return the task that the reset option names: nothing, a Task, an id, or a number of the split."""
        if task is None:
            return self.draw(rng)
        if isinstance(task, str):
            return self.find(task)
        if isinstance(task, int) and not isinstance(task, bool):
            return self.numbered(task)
        if not isinstance(task, Task):
            raise BadConfig(f"reset option task is {task!r:.80}; expected a Task, an id or a number")
        return task

    def _forget(self) -> None:
        """Delete what the last episode set on the object."""
        for name in [k for k in self.__dict__ if k not in self._own]:
            del self.__dict__[name]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out one action; an invalid one costs a turn and never raises."""
        if not self._running:
            raise EpisodeOver("the episode is over (or none was started): call reset() before step()")
        self.turn += 1
        try:
            return self._advance(action)
        except Fault as fault:
            return self._break_off(fault)

    def _advance(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        role, reason = self.role, None
        outcome = self._respond(action)
        self.success = outcome.success
        rewards = self._pay(outcome)
        terminated = outcome.success is not None
        truncated = not terminated and self.turn >= self.limit
        if terminated:
            reason = "success" if outcome.success else "failure"
        elif truncated:
            reason, self.success = "horizon", False
        info = self._info(outcome, rewards, reason)
        reward = sum(rewards.values(), 0.0)
        self.totals[role] += reward
        if terminated or truncated:
            self._running = False
            self.totals.update(self.role_rewards() or {})
        self.observation = outcome.text
        return outcome.text, reward, terminated, truncated, info

    def _break_off(self, fault: Fault) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """End the episode undecided; the environment is not asked again, for what it leans on has failed."""
        self._running, self.success, self.observation = False, None, ""
        info = dict.fromkeys(INFO_KEYS)
        info |= {"task_id": self.task.id, "valid": True, "error": str(fault), "rewards": {}, "metrics": {}}
        return "", 0.0, False, True, {**info, "reason": fault.reason}

    def _respond(self, action: str) -> Outcome:
        """Return the outcome of an action of any kind, well-formed or not."""
        if not isinstance(action, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users do pass other things
            return self.malformed(f"an action is a string, not {type(action).__name__}.")
        if len(action) > MAX_ACTION:
            return self.malformed(f"the action has {len(action)} characters; at most {MAX_ACTION} are read.")
        try:
            action.encode()
        except UnicodeEncodeError:
            return self.malformed("the action holds half a character (a lone surrogate), which is not text.")
        if self.tools:
            call = parse_call(action, self.tools)
            if not isinstance(call, Call):
                return self.malformed(call)
            method = getattr(self, call.name)
            return returned(method(**call.arguments), method, f"tool {call.name} of {type(self).__name__}")
        return returned(self.act(action), self.act, f"act of {type(self).__name__}")

    def _pay(self, outcome: Outcome) -> dict[str, float]:
        """Return the named parts of the reward: the outcome, and the weighted change of each shaped measure."""
        rewards = {"success": 1.0} if outcome.success else {}
        if self.shaping:
            levels = {**self._levels, **self.measures(), **outcome.measures}
            for name, weight in self.shaping.items():
                change = min(max(levels.get(name, 0.0), 0.0), 1.0) - min(max(self._levels.get(name, 0.0), 0.0), 1.0)
                if change:
                    rewards[name] = weight * change
            self._levels = levels
        elif outcome.measures:
            self._levels = {**self._levels, **outcome.measures}
        return rewards

    def _info(self, outcome: Outcome, rewards: dict[str, float], reason: str | None) -> dict[str, Any]:
        """Return the step's info; the keys are the same at every step of every environment."""
        levels = {**self._levels, **self.measures()}
        return {
            "task_id": self.task.id,
            "state_key": self.state_key(),
            "valid": outcome.valid,
            "error": outcome.error,
            "admissible": self.admissible(),
            "rewards": rewards,
            "metrics": {name: value for name, value in levels.items() if name not in self.shaping},
            "success": self.success,
            "reason": reason,
        }

    def snapshot(self) -> Snapshot:
        """Return everything `restore` needs to go on from here."""
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
            observation=self.observation,
            payload=self.save(),
        )

    def restore(self, state: Snapshot, *, seed: int | None = None) -> Self:
        """Go on from a snapshot, in this or another instance; `seed` draws later chance afresh. Returns itself."""
        self.task, self.seed, self.turn, self.limit = state.task, state.seed, state.turn, state.horizon
        self._running, self.success, self.observation = state.running, state.success, state.observation
        self._levels, self.totals = dict(state.levels), dict(state.totals)
        self.load(state.payload)
        chance = generator(state.task.id, state.random_state, seed)
        if seed is None:
            chance.bit_generator.state = state.random_state
        self._np_random = chance
        return self

    def info(self) -> dict[str, Any]:
        """Return the info of the present state, as `reset` would: what a conversation needs after `restore`."""
        return self._info(Outcome(""), {}, None)

    def render(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return one line that says where the episode stands."""
        return f"{self.task.id} turn {self.turn}/{self.limit} success={self.success}"


def _check_integer(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadConfig(f"{name} is {value!r}; expected an integer from {least}")
