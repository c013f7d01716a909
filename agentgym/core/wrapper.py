"""A wrapper that loses nothing of a text environment."""

from typing import Any, Self, cast

import gymnasium

from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import Info
from agentgym.core.verdicts import amount, amounts, ended, verdict
from agentgym.errors import BadConfig


class TextWrapper(gymnasium.Wrapper[str, str, str, str]):
    """A Gymnasium wrapper that forwards everything a `TextEnv` offers beyond Gymnasium's own interface.

    If an inner wrapper (Gymnasium's `TimeLimit`) ends an episode without a reason, `info` gets one here: `horizon` if
    truncated, `failure` if terminated; neither is a success.
    """

    def __getattr__(self, name: str) -> Any:  # whatever the environment inside has
        if name.startswith("_"):
            raise AttributeError(name)
        return self.env.get_wrapper_attr(name)

    def step(  # pyright: ignore[reportIncompatibleMethodOverride]  # Info is the dict that Gymnasium means
        self, action: str
    ) -> tuple[str, float, bool, bool, Info]:
        """Carry out one action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and info.get("reason") is None:
            info = {**info, "reason": "failure" if terminated else "horizon", "success": False}
        return observation, cast("float", reward), terminated, truncated, cast("Info", info)

    def restore(self, state: Snapshot, *, seed: int | None = None) -> Self:
        """Restore the environment inside and return the wrapper, so that wrapping survives a branch."""
        self.env.get_wrapper_attr("restore")(state, seed=seed)
        return self


def checked(step: Any, env: object) -> tuple[str, float, bool, bool, Info]:
    """Return the step of an environment whose wrappers may have changed it; TypeError, naming the wrapper, for a reward,
    end or success that is none. A TextEnv has checked its own."""
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
    """Return an environment that offers the whole `TextEnv` interface.

    Raises:
        BadConfig: the environment is not a text environment, or a wrapper hides it.
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
