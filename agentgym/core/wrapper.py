"""A Gymnasium wrapper that preserves the whole interface of a text environment."""

from typing import Any, Self, cast

import gymnasium

from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info
from agentgym.core.verdicts import amount, amounts, ended, verdict
from agentgym.errors import BadConfig


class TextWrapper(gymnasium.Wrapper[str, str, str, str]):
    """A Gymnasium wrapper that forwards everything that `TextEnv` adds to Gymnasium's interface.

    If an inner wrapper, such as Gymnasium's `TimeLimit`, ends an episode without a reason, this wrapper sets `reason`
    in the info: `horizon` if truncated, `failure` if terminated. Both have success False.
    """

    def __getattr__(self, name: str) -> Any:  # whatever the environment inside has
        if name.startswith("_"):
            raise AttributeError(name)
        return self.env.get_wrapper_attr(name)

    def step(  # pyright: ignore[reportIncompatibleMethodOverride]  # Info is the dict that Gymnasium means
        self, action: str
    ) -> tuple[str, float, bool, bool, Info]:
        """Carry out one action; if an inner wrapper ends the episode without a reason, set `reason` and success False."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and info.get("reason") is None:
            info = {**info, "reason": "failure" if terminated else "horizon", "success": False}
        return observation, cast("float", reward), terminated, truncated, cast("Info", info)

    def restore(self, state: Snapshot, *, seed: int | None = None) -> Self:
        """Restore the inner environment and return the wrapper, so that a branch stays wrapped."""
        self.env.get_wrapper_attr("restore")(state, seed=seed)
        return self


def checked(step: Any, env: object) -> tuple[str, float, bool, bool, Info]:
    """Check the values of a step that wrappers may have changed, and return the step; a TextEnv's step needs no check.

    Raises:
        TypeError: a reward, end or success has a wrong type; the message names the wrapper.
    """
    if isinstance(env, TextEnv):
        return step
    observation, reward, terminated, truncated, info = step
    kind = type(env).__name__
    info = {
        **info,
        "success": verdict(info["success"], f"info['success'] of {kind}"),
        "rewards": amounts(info["rewards"], f"info['rewards'] of {kind}"),
        "metrics": amounts(info["metrics"], f"info['metrics'] of {kind}"),
    }
    ends = ended(terminated, f"terminated of {kind}"), ended(truncated, f"truncated of {kind}")
    return observation, amount(reward, f"the reward of {kind}"), *ends, cast("Info", info)


def forwarded(env: object) -> TextEnv:
    """Return `env` if it offers the whole `TextEnv` interface.

    Raises:
        BadConfig: the environment is not a text environment, or a wrapper hides that interface.
    """
    if isinstance(env, TextEnv | TextWrapper):
        return cast("TextEnv", env)
    kind = type(env).__name__
    inside: object = getattr(env, "unwrapped", None)
    if isinstance(env, gymnasium.Wrapper) and isinstance(inside, TextEnv):
        why = f"{kind} is a Gymnasium wrapper, which hides everything of a text environment except reset and step"
        raise BadConfig(
            f"{why}. Put agentgym.TextWrapper(…) around it, or derive it from TextWrapper. For a limit of turns use the "
            "keyword `horizon` of the environment instead of TimeLimit"
        )
    raise BadConfig(f"{kind} is not a text environment: agentgym works on subclasses of agentgym.TextEnv")
