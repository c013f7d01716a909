#!/bin/sh
# An OpenEnv server calls an error in its own step the client's invalid message, and the client drops which field is wrong.
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


class Move(Action):
    steps: int


class Seen(Observation):
    place: int = 0


class Walk(Environment[Move, Seen, State]):
    def reset(self, seed=None, episode_id=None, **_):
        return Seen()

    def step(self, action, timeout_s=None, **_):
        return Seen(place="nowhere")  # a mistake of the server: no integer

    @property
    def state(self):
        return State()


bound = socket.socket()
bound.bind(("127.0.0.1", 0))
bound.listen()
server = uvicorn.Server(uvicorn.Config(create_fastapi_app(Walk, Move, Seen), log_level="error"))
thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
thread.start()


def answer(client, action):
    try:
        return str(client.step(action).observation)
    except Exception as error:
        return str(error)


with GenericEnvClient(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}").sync() as client:
    client.reset()
    seen = [answer(client, {"steps": "far"}), answer(client, {"steps": 1})]
server.should_exit = True
thread.join()
print("openenv", version("openenv"))
print("expected: VALIDATION_ERROR with the field for a wrong action; EXECUTION_ERROR for a right action and a broken step")
print("seen: a wrong action:", seen[0])
print("seen: a right action, a broken step:", seen[1])
sys.exit(seen != ["Server error: Invalid message (code: VALIDATION_ERROR)"] * 2)
END
"$folder/venv/bin/python" "$folder/probe.py"
