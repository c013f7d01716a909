"""Declarations of an environment about itself, which `agentgym check` and the tests verify."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.errors import BadConfig


@dataclass(frozen=True, kw_only=True)
class Declarations:
    """Claims of an environment beyond its rules: `declared = Declarations(random_bound=0.01, answers=("code",))`.

    A subclass that changes one of them writes `declared = dataclasses.replace(Base.declared, random_bound=0.1)`.
    """

    random_bound: float = 0.2
    """Upper bound of the success of random play."""
    expert_bound: float = 0.5
    """Lower bound of the success of the expert."""
    answers: tuple[str, ...] = ()
    """Keys of `task.data` that hold the answer: its text must not be in the first observation."""
    choices: tuple[str, ...] = ()
    """Keys of `task.data` with the choices that the question shows; showing all of them does not reveal the answer."""
    ceilings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Success of shortcut policies that is not 0, by name, explained in the environment's docstring."""
    nondeterministic: str = ""
    """Reason why the environment is not deterministic; empty if it is."""

    def __post_init__(self) -> None:
        ceilings = {f"the ceiling of {name!r}": value for name, value in self.ceilings.items()}
        for name, value in {"random_bound": self.random_bound, "expert_bound": self.expert_bound, **ceilings}.items():
            if not 0 <= value <= 1:  # NaN too, which nothing is above
                raise BadConfig(f"{name} is {value}; expected a share of episodes, from 0 to 1")
