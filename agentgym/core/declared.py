"""Declarations of an environment about itself, such as bounds on success, which `agentgym check` and the tests verify."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.errors import BadConfig


@dataclass(frozen=True, kw_only=True)
class Declarations:
    """An environment's claims about its tasks: `declared = Declarations(random_bound=0.01, answers=("code",))`.

    A subclass changes one of them by `declared = dataclasses.replace(Base.declared, random_bound=0.1)`.
    """

    random_bound: float = 0.2
    """Upper bound on the success rate of random actions, from 0 to 1."""
    expert_bound: float = 0.5
    """Lower bound on the success rate of the expert, from 0 to 1."""
    answers: tuple[str, ...] = ()
    """Keys of `task.data` that contain the answer; the answer's text must not appear in the first observation."""
    choices: tuple[str, ...] = ()
    """Keys of `task.data` with the choices that the question shows. Showing all choices does not count as revealing the
    answer."""
    ceilings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Upper bounds on the success rate of shortcut policies, by name; 0 for all others. The docstring of the
    environment explains them."""
    nondeterministic: str = ""
    """Reason why the environment is not deterministic; empty if it is."""

    def __post_init__(self) -> None:
        ceilings = {f"the ceiling of {name!r}": value for name, value in self.ceilings.items()}
        for name, value in {"random_bound": self.random_bound, "expert_bound": self.expert_bound, **ceilings}.items():
            if not 0 <= value <= 1:  # NaN too, which nothing is above
                raise BadConfig(f"{name} is {value}; expected a share of episodes, from 0 to 1")
