"""Play one episode with OpenEnv's own clients; run by a Python that has openenv.

python client.py URL generic|typed SEED ACTION…   prints what each step brought, as JSON lines
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient


class TextAction(Action):
    text: str


class TextObservation(Observation):
    text: str
    terminated: bool
    truncated: bool
    info: dict
    tools: list = []  # noqa: RUF012


class TypedClient(EnvClient[TextAction, TextObservation, State]):
    """A client as `openenv init` writes it: pydantic models that refuse what they do not know."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        seen = TextObservation(**payload["observation"], reward=payload["reward"], done=payload["done"])
        return StepResult(observation=seen, reward=payload["reward"], done=payload["done"])

    def _parse_state(self, payload):
        return State(**payload)


@dataclass
class Kind:
    client: type
    act: Callable[[str], Any]
    text: Callable[[Any], str]
    state: Callable[[Any], dict[str, Any]]


KINDS = {
    "generic": Kind(GenericEnvClient, lambda text: {"text": text}, lambda o: o["text"], lambda s: s),
    "typed": Kind(TypedClient, lambda text: TextAction(text=text), lambda o: o.text, lambda s: s.model_dump()),
}


def main() -> None:
    url, kind, seed, *actions = sys.argv[1:]
    kind = KINDS[kind]
    with kind.client(base_url=url).sync() as env:
        result = env.reset(seed=int(seed), episode_id="one")
        print(json.dumps([kind.text(result.observation), result.reward, result.done]))
        for action in actions:
            result = env.step(kind.act(action))
            print(json.dumps([kind.text(result.observation), result.reward, result.done]))
        state = kind.state(env.state())
        print(json.dumps([state["episode_id"], state["step_count"]]))


if __name__ == "__main__":
    main()
