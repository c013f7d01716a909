#!/bin/sh
# An action that breaks a rule of its model is answered as a failure of the OpenEnv server, which cannot write the rule's error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openenv==0.10.0
cat >"$folder/probe.py" <<'END'
import socket
import sys
import threading
from importlib.metadata import version

import uvicorn
from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import model_validator


class Turn(Action):
    kind: str
    degrees: int | None = None

    @model_validator(mode="after")
    def complete(self):
        if self.kind == "turn" and self.degrees is None:
            raise ValueError("turn needs degrees")
        return self


class Compass(Environment[Turn, Observation, State]):
    def reset(self, seed=None, episode_id=None, **_):
        return Observation()

    def step(self, action, timeout_s=None, **_):
        return Observation()

    @property
    def state(self):
        return State()


bound = socket.socket()
bound.bind(("127.0.0.1", 0))
bound.listen()
server = uvicorn.Server(uvicorn.Config(create_fastapi_app(Compass, Turn, Observation), log_level="critical"))
thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
thread.start()
with GenericEnvClient(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}").sync() as client:
    client.reset()
    try:
        seen = str(client.step({"kind": "turn"}))
    except Exception as error:
        seen = str(error)
server.should_exit = True
thread.join()
print("openenv", version("openenv"))
print("expected: VALIDATION_ERROR, and the rule's text: turn needs degrees")
print("seen:", seen)
sys.exit("Unable to serialize unknown type: <class 'ValueError'>" not in seen or "VALIDATION" in seen)
END
"$folder/venv/bin/python" "$folder/probe.py"
