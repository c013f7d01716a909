"""Text environments with numbered actions, for trainers of small policies (Stable-Baselines3, RLlib).

env = ActionIndexEnv(agentgym.make("rlvr/FrozenLake-v0"), actions=8)
PPO("MlpPolicy", env).learn(10_000)                        # stable_baselines3; sb3_contrib reads action_masks()
ActionIndexEnv(env, actions=8, mask_in_observation=True)   # RLlib: {"observations": …, "action_mask": …}
"""

import re
from collections.abc import Callable
from typing import Any, cast
from zlib import crc32

import gymnasium
import numpy as np
from numpy.typing import NDArray

from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.wrapper import forwarded
from agentgym.errors import BadConfig

FEATURES = 256
"""Number of features in the default encoding of an observation."""
_WORD = re.compile(r"\w+")

Array = NDArray[np.float32]


def hashed_words(observation: str, info: Info) -> Array:
    """Return hashed word counts of the observation and the admissible commands: float32 [FEATURES], from 0 to 1.

    Counts are divided by 4 and capped at 1. Words of a command are counted together with the command's position, so a new
    order of the commands changes the features.
    """
    counts = np.zeros(FEATURES, np.float32)
    commands = [f"{place}:{word}" for place, text in enumerate(info["admissible"] or []) for word in _WORD.findall(text)]
    for word in [*_WORD.findall(observation.lower()), *commands]:
        counts[crc32(word.encode()) % FEATURES] += 1
    return np.minimum(counts / 4, 1.0).astype(np.float32)


class ActionIndexEnv(gymnasium.Env[Any, Any]):
    """A text environment with the action space `Discrete(actions)`: action `i` is the `i`-th admissible command.

    A number with no command is an invalid action and costs a turn. `action_masks()` marks the numbers that have a command.

    Raises:
        BadConfig: the environment's commands are not a finite list, or there are more than `actions` of them.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # gymnasium's own form

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        actions: int = 64,
        encode: Callable[[str, Info], Array] = hashed_words,
        features: int = FEATURES,
        mask_in_observation: bool = False,
    ) -> None:
        """Wrap a text environment; `encode` maps observation and info to an array of `features` numbers from 0 to 1."""
        self.env: TextEnv = forwarded(env)
        self.count, self.encode, self.masked = actions, encode, mask_in_observation
        self.commands: list[str] = []
        """Commands that are admissible now."""
        self.action_space = gymnasium.spaces.Discrete(actions)
        box = gymnasium.spaces.Box(0.0, 1.0, (features,), np.float32)
        mask = gymnasium.spaces.Box(0.0, 1.0, (actions,), np.float32)
        self.observation_space = (
            gymnasium.spaces.Dict({"observations": box, "action_mask": mask}) if mask_in_observation else box
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; return the encoded observation and the environment's info."""
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return self._encoded(observation, info), cast("dict[str, Any]", info)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out command number `action` and return what `gymnasium.Env.step` returns, with the observation encoded."""
        number = int(action)
        command = self.commands[number] if 0 <= number < len(self.commands) else f"action {number}"
        observation, reward, terminated, truncated, info = self.env.step(command)
        return self._encoded(observation, info), reward, terminated, truncated, cast("dict[str, Any]", info)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a mask of the numbers that have a command: bool [actions]."""
        return np.arange(self.count) < len(self.commands)

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()

    def _encoded(self, observation: str, info: Info) -> Any:
        listed = info["admissible"]
        kind = type(self.env.unwrapped).__name__
        if listed is None:
            raise BadConfig(f"{kind} has no finite list of commands; expected an environment with info['admissible']")
        if len(listed) > self.count:
            raise BadConfig(f"{kind} has {len(listed)} commands, but actions is {self.count}; set actions={len(listed)}")
        # After the end no command is admissible, but libraries that sample from the mask refuse an empty one.
        self.commands = listed or self.commands[:1]
        encoded = self.encode(observation, info)
        return {"observations": encoded, "action_mask": self.action_masks().astype(np.float32)} if self.masked else encoded
