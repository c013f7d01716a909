"""Definition of an environment: its settings, its declarations, and the methods that a subclass overrides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.outcome import Outcome, RoleReward
from agentgym.core.pool import Pool
from agentgym.core.tasks import Task


class Definition(Pool):
    """The part of `TextEnv` that an environment overrides. Only `begin`, and `act` if there are no tools, are required."""

    horizon: int = 50
    """Maximum number of turns, after which an episode is truncated; also a keyword and a reset option."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Names of class attributes that a caller may set by keyword; the attributes' values are the defaults."""
    task_settings: ClassVar[tuple[str, ...]] = (
        "split",
        "difficulty",
        "horizon",
        "feedback",
        "shaping",
        "pool",
        "preset",
        "render_mode",
    )
    """Settings of this class that shape tasks, so that a stored file may set them; the lists of base classes count too."""
    caller_settings: ClassVar[tuple[str, ...]] = ("pool_file",)
    """Settings of this class that say where or how something runs (files, addresses, sandboxes, models); only the
    caller may set them. A setting that is in neither list is treated like these."""
    caps: ClassVar[tuple[str, ...]] = ()
    """Settings that limit resources below what a task grants; results with such a limit are not comparable."""
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    """Named sets of settings: `gym.make(id, preset="tiny")`; an explicit keyword wins over the preset."""
    shaping: Mapping[str, float] = MappingProxyType({})
    """Weights of measures in the reward, by name; by default only the outcome is paid."""
    feedback: str = "helpful"
    """Style of the response to an invalid action: `helpful`, or `genuine` (the reference implementation's words)."""
    blocking: bool = False
    """True if a step may wait for something outside of the process; such environments run in worker processes."""
    step_seconds: float = 0.0
    """Lower bound, in seconds, on a rollout's time limit per step, so that an environment's own limit applies first."""
    tool_seconds: float = 60.0
    """Seconds that an async tool, `act` or `begin` may take; a longer call is an infrastructure error."""
    snapshot_kind: str = "exact"
    shared: tuple[str, ...] = ()
    """Names of attributes that `begin` sets and nothing changes afterwards; snapshots refer to them instead of copying
    them."""
    roles: tuple[str, ...] = ("agent",)
    declared: Declarations = Declarations()
    """Claims of this environment that `agentgym check` and the tests verify."""

    @final
    @classmethod
    def stored_option_names(cls) -> frozenset[str]:
        """Return the keywords of the constructor that a stored file may set: those that shape tasks."""
        lists = [(vars(kind).get("task_settings", ()), vars(kind).get("caller_settings", ())) for kind in cls.__mro__]
        tasks, caller = ({name for names in column for name in names} for column in zip(*lists, strict=True))
        return frozenset(tasks - caller)

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return how these options make scoring or limits differ from the published environment; empty if they do not.

        `options` are keywords of the constructor, plus `horizon` if an evaluation sets it. An evaluation prints the
        text, with a note that its results are not comparable. Environments without a published version return an empty
        text.
        """
        return ""

    def wordings_of(self, tasks: Sequence[Task]) -> tuple[str, ...]:
        """Return the sorted names of the wordings that tasks use; () if the environment has only one wording.

        An evaluation records them, and warns about wordings that a training run did not use.
        """
        return ()

    def requires(self) -> None:
        """Raise MissingExtra, with the command to install it, if this machine lacks something that the environment requires.

        The constructor calls it after setting the options and before checking them; `agentgym doctor` calls it with the
        defaults. It looks for files and packages, and starts nothing. An override calls `super().requires()`.
        """

    def check_options(self) -> None:
        """Check the options after they are set. An override calls `super().check_options()`.

        Raises:
            BadConfig: an option has a wrong type or value, or two options exclude each other.
            UnknownName: an option names something that does not exist.
        """

    def setup(self) -> None:
        """Prepare data that all episodes share (indexes, files); called once, after the options are set.

        Raises:
            BadConfig: data that an option needs is missing or cannot be read.
        """

    def begin(self, task: Task) -> str:
        """Set the attributes that make up the state and return the first observation.

        Raises:
            BadConfig: the options do not fit this task.
        """
        raise NotImplementedError(f"{type(self).__name__} must define begin(task)")

    def act(self, action: str) -> "str | Outcome":
        """Carry out an action and return its observation, or an Outcome; only for environments without tools.

        `action` is the agent's text, unchanged.
        """
        raise NotImplementedError(f"{type(self).__name__} must define act(action), or methods marked @agentgym.tool")

    def state(self) -> object:
        """Return everything that determines the future except the turn counter and random state; None if unknown."""
        return None

    def oracle(self) -> Iterator[str]:
        """Yield the actions of a correct solution from the current state; it may use information hidden from the agent.

        Raises:
            NotImplementedError: no solution of this task is known.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no oracle()")

    def expert(self) -> Iterator[str]:
        """Yield good actions, based only on what the agent has been shown; it is called again after every turn."""
        raise NotImplementedError(f"{type(self).__name__} defines no expert()")

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Return a plausible wrong action based on what the agent has been shown, or None if there is none.

        Demonstrations with noise use it if the valid commands are not a finite list.
        """
        return None

    def admissible(self) -> list[str] | None:
        """Return the commands that are valid now, or None if they are not a finite list."""
        return None

    def health_check(self) -> None:
        """Raise a Fault if a service that the environment depends on fails without the agent's involvement.

        After a step has faulted, a rollout calls this in a fresh episode of the same task. The default checks nothing.
        """

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        """Return the environment's own shortcut policies by name; each maps all observations so far to an action.

        Each must have a success rate of 0, or at most its bound in `declared.ceilings`.
        """
        return {}

    def measures(self) -> dict[str, float]:
        """Return the current state's measures by name, each from 0 to 1; only those with a weight in `shaping` are paid."""
        return {}

    @property
    def role(self) -> str:
        """Role that acts next; `begin` and `act` may assign one of `roles`. It is part of the state and of snapshots.

        Raises:
            ValueError: the assigned name is not one of `roles`.
        """
        return self.__dict__.get("role", self.roles[0])

    @role.setter
    def role(self, name: str) -> None:
        if name not in self.roles:
            raise ValueError(f"role of {type(self).__name__} is set to {name!r}; expected one of {', '.join(self.roles)}")
        self.__dict__["role"] = name  # in snapshots, and deleted at the next reset, like all that an episode sets

    def role_rewards(self) -> Mapping[str, RoleReward] | None:
        """Return reward and success by role at the end of an episode with several roles, or None.

        With None, the role that acted last gets the outcome. The shaping paid in a role's turns is added to its reward.
        """
        return None

    def more_info(self) -> dict[str, object]:
        """Return additional keys for `info`; none by default."""
        return {}

    def close(self) -> None:
        """Free the environment's resources; this may end a running episode."""
