"""Definition of an environment: its settings, its declarations, and the methods that a subclass fills in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.outcome import Outcome, RoleReward
from agentgym.core.pool import Pool
from agentgym.core.tasks import Task


class Definition(Pool):
    """The part of `TextEnv` that an environment overrides; each name has a default."""

    horizon: int = 50
    """Turns after which an episode is truncated; keyword and reset option of the same name."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Names of the class attributes that a caller may set by keyword; their values are the defaults."""
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
    """Settings of this class that shape tasks, so that a stored file may set them; those of base classes count too."""
    caller_settings: ClassVar[tuple[str, ...]] = ("pool_file",)
    """Settings of this class that determine where or how something runs (files, addresses, sandboxes, models); only the
    caller sets them. A setting in neither list is treated as one of these.
    """
    caps: ClassVar[tuple[str, ...]] = ()
    """Settings that cap resources that a task grants; results with a cap are not comparable."""
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    """Named sets of settings: `gym.make(id, preset="tiny")`; an explicit keyword wins over the preset."""
    shaping: Mapping[str, float] = MappingProxyType({})
    """Weights of measures in the reward; by default only the outcome is paid."""
    feedback: str = "helpful"
    """Answer to an invalid action: `helpful`, or `genuine` (the reference implementation's words)."""
    blocking: bool = False
    """True if a step may wait for something outside; such environments run in worker processes."""
    step_seconds: float = 0.0
    """Lower bound on a rollout's time limit for a step, in seconds; for an environment that limits its steps itself."""
    tool_seconds: float = 60.0
    """Seconds that an async tool, `act` or `begin` may take; one that takes longer is an infrastructure error."""
    snapshot_kind: str = "exact"
    shared: tuple[str, ...] = ()
    """Attributes set by `begin` that never change afterwards: snapshots keep them by reference."""
    roles: tuple[str, ...] = ("agent",)
    declared: Declarations = Declarations()
    """Claims that `agentgym check` and the tests verify."""

    @final
    @classmethod
    def stored_option_names(cls) -> frozenset[str]:
        """Return the keywords of the constructor that a stored file may set: those that shape tasks."""
        lists = [(vars(kind).get("task_settings", ()), vars(kind).get("caller_settings", ())) for kind in cls.__mro__]
        tasks, caller = ({name for names in column for name in names} for column in zip(*lists, strict=True))
        return frozenset(tasks - caller)

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return how these options make scoring or limits differ from the published environment.

        `options` are keywords of the constructor, and `horizon` where an evaluation sets it. Empty if nothing differs
        or nothing is published. An evaluation prints it, with a note that its results are not comparable.
        """
        return ""

    def wordings_of(self, tasks: Sequence[Task]) -> tuple[str, ...]:
        """Return the sorted names of the wordings that tasks are played in; () if the environment has only one.

        An evaluation records them, and warns about those that a training run did not play.
        """
        return ()

    def requires(self) -> None:
        """Raise MissingExtra, with the command to install it, if this machine lacks a requirement of the environment.

        Called when the environment is made, once its options are set and before they are checked; `agentgym doctor` calls
        it with the defaults. It looks for files and packages, and starts nothing. An override calls this one.
        """

    def check_options(self) -> None:
        """Check the options, once they are set; an override calls this one.

        Raises:
            BadConfig: an option has a wrong type or value, or two options exclude each other.
            UnknownName: an option names something that does not exist.
        """

    def setup(self) -> None:
        """Prepare data that all episodes share (indexes, files); called once, after the options are set.

        Raises:
            BadConfig: an option needs data that is not there, or its data cannot be read.
        """

    def begin(self, task: Task) -> str:
        """Set the attributes that make up the state and return the first observation.

        Raises:
            BadConfig: the options do not fit this task.
        """
        raise NotImplementedError(f"{type(self).__name__} must define begin(task)")

    def act(self, action: str) -> "str | Outcome":
        """Carry out an action of an environment without tools; the string arrives untouched."""
        raise NotImplementedError(f"{type(self).__name__} must define act(action), or methods marked @agentgym.tool")

    def state(self) -> object:
        """Return everything that determines the future except the turn counter and random state; None if unknown."""
        return None

    def oracle(self) -> Iterator[str]:
        """Yield the actions of a correct solution from the present state; may know everything.

        Raises:
            NotImplementedError: no solution of this task is known.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no oracle()")

    def expert(self) -> Iterator[str]:
        """Yield good actions using only what the agent has been shown; called again after every turn."""
        raise NotImplementedError(f"{type(self).__name__} defines no expert()")

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Return a plausible wrong action made from what was shown, or None if there is none.

        Noise in demonstrations uses it if commands are not a finite list.
        """
        return None

    def admissible(self) -> list[str] | None:
        """Return the commands that are valid now, or None if they are not a finite list."""
        return None

    def health_check(self) -> None:
        """Raise a Fault if a service that the environment depends on fails without the agent's involvement.

        A rollout asks after a step has faulted, in a fresh episode of the same task: by default nothing needs a check.
        """

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        """Return the environment's own shortcuts by name: from all observations so far to an action.

        Each must have success 0, or at most its number in `declared.ceilings`.
        """
        return {}

    def measures(self) -> dict[str, float]:
        """Return the measures of the present state (each from 0 to 1), paid only with a weight in `shaping`."""
        return {}

    @property
    def role(self) -> str:
        """Role that acts next. `begin` and `act` may assign one of `roles`; it is part of the state and of snapshots.

        Raises:
            ValueError: another name is assigned.
        """
        return self.__dict__.get("role", self.roles[0])

    @role.setter
    def role(self, name: str) -> None:
        if name not in self.roles:
            raise ValueError(f"role of {type(self).__name__} is set to {name!r}; expected one of {', '.join(self.roles)}")
        self.__dict__["role"] = name  # in snapshots, and deleted at the next reset, like all that an episode sets

    def role_rewards(self) -> Mapping[str, RoleReward] | None:
        """Return reward and success by role when an episode with several players is over, else None.

        None pays the role that acted last. The shaping paid to a role's turns is added to its reward.
        """
        return None

    def more_info(self) -> dict[str, object]:
        """Return additional keys for `info`; none by default."""
        return {}

    def close(self) -> None:
        """Free the environment's resources; a running episode may be lost."""
