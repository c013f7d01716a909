"""Our environments as text environments of SkyRL's gym (0.4), for SkyRL's generator.

from agentgym.integrations.skyrl_gym import dataset, register
register()                                       # once per process; then set env_class to "agentgym"
rows = dataset("rlvr/SQL-v0", "train", 512)      # the columns that SkyRL's PromptDataset reads
"""

# skyrl_gym is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportIncompatibleMethodOverride=false, reportCallIssue=false

from typing import Any, cast

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv

from agentgym import registry
from agentgym.agents.prompt import is_file
from agentgym.episodes.stored_env import of_dataset
from agentgym.errors import BadConfig
from agentgym.integrations.conversation import Conversation
from agentgym.rollout.session import Session

ID = "agentgym"


def register() -> None:
    """Register `AgentgymEnv` with SkyRL's gym under the id `agentgym`."""
    skyrl_gym.register(id=ID, entry_point="agentgym.integrations.skyrl_gym:AgentgymEnv")


def dataset(env: str, split: str = "train", tasks: int = 512, **options: object) -> list[dict[str, Any]]:
    """Return a dataset row for each of the first `tasks` tasks of a split."""
    environment = registry.make(env, split=split, **options)
    listed = environment.up_to(tasks, split)
    environment.close()
    facts = {"env": env, "options": {**options, "split": split}}
    prompt = [{"role": "user", "content": ""}]  # `init` puts the first observation here
    return [{"prompt": prompt, "env_class": ID, "task": {**facts, "task_id": task.id}} for task in listed]


class AgentgymEnv(BaseTextEnv):
    """One episode of a dataset row; `prompt` of the row (or the default prompt) determines how replies are parsed."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        row = (extras or {})["task"]
        name, options = of_dataset(row, env_config or {})  # a dataset may come from a stranger
        self.session = Session(name, **cast("dict[str, Any]", options))
        self.row, self.seed = row, int(row.get("seed", 0))
        if is_file(str(row.get("prompt") or "")):
            raise BadConfig(f"a row of the dataset names the file {row['prompt']!r}; expected a prompt of the package")
        self.talk = Conversation(self.session, row.get("prompt") or "")

    def init(self, prompt: Any) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Start the episode and return our prompt's messages with the first observation; `prompt` is ignored."""
        system, user = self.talk.begin(self.row["task_id"], self.seed)
        self.max_turns = self.session.env.limit
        messages = [{"role": "system", "content": system}] if system else []
        return [*messages, {"role": "user", "content": user}], {}

    def step(self, action: str) -> Any:
        """Carry out the action in a reply and return the fields of SkyRL's step: observations, reward, done, metadata.

        Raises:
            RuntimeError: the episode ended with an infrastructure error; SkyRL's generator handles it.
        """
        session = self.session
        self.turns += 1
        message, reward = self.talk.reply(action)
        if session.done and session.success is None:
            raise RuntimeError(f"{session.reason}: {session.error}")
        messages = [] if message is None else [{"role": "user", "content": message}]
        facts = {"reason": session.reason, "success": session.success, "valid": session.info["valid"]}
        return {
            "observations": messages,
            "reward": reward,
            "done": session.done,
            "metadata": {**facts, "state_key": session.info["state_key"]},
            "postprocessed_action": action,
        }

    def get_metrics(self) -> dict[str, object]:
        """Return the episode's `success` (0 or 1), `turns` and `invalid` actions; SkyRL averages them over episodes."""
        session = self.session
        return {"success": float(bool(session.success)), "turns": session.turns, "invalid": session.invalid}

    def close(self) -> None:
        """Close the session and its environment."""
        self.session.close()
