"""A wrapper that loses nothing of a text environment."""

from typing import Any, Self

import gymnasium

from agentgym.core.env import Snapshot


class TextWrapper(gymnasium.Wrapper[str, str, str, str]):
    """A Gymnasium wrapper that forwards everything a `TextEnv` offers beyond Gymnasium's own interface."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.env.get_wrapper_attr(name)

    def restore(self, state: Snapshot, *, seed: int | None = None) -> Self:
        """Restore the environment inside and return the wrapper, so that wrapping survives a branch."""
        self.env.get_wrapper_attr("restore")(state, seed=seed)
        return self
