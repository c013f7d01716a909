"""Steps per second in containers: what benchmarks/integrations.py measures of Harbor.

Needs a Docker daemon of ours and its image, in an environment that has harbor. `./dev test-harbor` makes all three and ends
the daemon; to have them longer:

    sh tests/with_docker/daemon.sh start FOLDER docker
    export DOCKER_HOST=unix://FOLDER/daemon.sock DOCKER_CONFIG=FOLDER/config PATH=FOLDER/programs/usr/bin:$PATH
    sh tests/with_harbor/compose.sh FOLDER && .venv-harbor/bin/python tests/with_docker/image.py $DOCKER_HOST
    .venv-harbor/bin/python benchmarks/integrations.py --only 'Harbor, its sandboxes' 'Harbor, task folders here'
    sh tests/with_docker/daemon.sh stop FOLDER
"""

import os
import tempfile
from pathlib import Path

from integrations_rate import env_rate

import agentgym

IMAGE = {"image": "agentgym-test/python"}
HORIZON = 20
Rates = dict[str, float]
TASK = {
    "task.toml": f'[environment]\ndocker_image = "{IMAGE["image"]}"\nmemory_mb = 256\nworkdir = "/app"\n',
    "instruction.md": "Write a file.\n",
    "environment/Dockerfile": f"FROM {IMAGE['image']}\n",
    "tests/test.sh": "test -e /app/file && echo 1 > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "touch file\n",
}


def sandboxes(seconds: float) -> Rates:
    """Programs of rlvr/Code-v0 in Harbor's local Docker, and on our docker backend over the same daemon."""
    options_of: dict[str, dict[str, object]] = {"steps": {"backend": "harbor", "backend_options": IMAGE}}
    options_of["alone"] = {"backend": "docker", "backend_options": {**IMAGE, "daemon": os.environ["DOCKER_HOST"]}}
    made = ((name, agentgym.make("rlvr/Code-v0", horizon=HORIZON, **options)) for name, options in options_of.items())
    return {name: env_rate(env, "run[print(6 * 7)]", seconds) for name, env in made}


def tasks(seconds: float) -> Rates:
    """Commands in the container of a task folder; an episode has a container of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in TASK.items():
            file = Path(folder, "task", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        options = {"daemon": os.environ["DOCKER_HOST"]}
        env = agentgym.make(f"harbor:{folder}/task", horizon=HORIZON, backend_options=options)
        return {"steps": env_rate(env, "bash[true]", seconds)}
