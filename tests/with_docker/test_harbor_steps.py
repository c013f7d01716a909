"""Harbor's steps, users and separate verifiers, played in real containers, and attacked."""

import os
from pathlib import Path

import pytest
from test_harbor import bash, make

from agentgym.sandbox.docker.daemon import LABEL, owner

try:
    from conftest import PYTHON
except ImportError:
    pytest.skip("the tests' own daemon is not there: run ./dev test-docker", allow_module_level=True)

IMAGE = PYTHON["image"]
ENVIRONMENT = f'[environment]\ndocker_image = "{IMAGE}"\nmemory_mb = 256\nworkdir = "/app"\n'
NUMBER = 'grep -qx "{}" /app/number && echo 1 > /logs/verifier/reward.txt || echo {} > /logs/verifier/reward.txt\n'


def write(folder: Path, toml: str, files: dict[str, str]) -> Path:
    for name, text in {"task.toml": toml, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def stepped(folder: Path, toml: str, *, otherwise: float = 0) -> Path:
    """Three steps: write 1, 2 and 3 into a file; the number before must have been there."""
    files = {"tests/helper.sh": "# for all steps\n"}
    entries = ""
    for number in (1, 2, 3):
        step = f"steps/s{number}"
        files |= {
            f"{step}/instruction.md": f"Write {number} to number.\n",
            f"{step}/tests/test.sh": f". /tests/helper.sh\n{NUMBER.format(number, otherwise)}",
            f"{step}/solution/solve.sh": f"echo {number} > number\n",
            f"{step}/workdir/setup.sh": f"[ {number} = 1 ] || [ -s number ] || exit 3\necho {number} > begun\n",
        }
        entries += f'[[steps]]\nname = "s{number}"\nmin_reward = 0.4\n'
    return write(folder, f"{toml}\n{ENVIRONMENT}\n{entries}", files)


def play(env, actions) -> list[tuple[str, float, dict]]:
    steps = [env.step(action) for action in actions]
    return [(observation, reward, info) for observation, reward, _, _, info in steps]


def test_steps_are_one_episode(tmp_path):
    env = make(stepped(tmp_path / "t", ""), shaping={"reward": 0.6})
    opening, _ = env.reset(seed=0)
    assert "Write 1 to number." in opening and "step 1 of 3" in opening and env.limit == 150
    paid = []
    for action in env.oracle():
        observation, reward, terminated, _, info = env.step(action)
        paid += [round(reward, 6)] if action == "submit[]" or terminated else []
        if "step 2 of 3" in observation:
            assert "Write 2 to number." in observation
            assert env.step(bash("cat number begun; ls /tests /logs/verifier /solution 2>&1"))[0].splitlines()[:2] == [
                "1",
                "2",
            ]
            assert "No such file" in env.step(bash("ls /tests"))[0]
            assert env.step(bash("ls -A /logs/verifier"))[0] == "[no output]"
            state = env.snapshot()
            env.restore(state)
            assert env.step(bash("cat number; pwd"))[0] == "1\n/app"
    assert info["success"] is True and env.totals["agent"] == pytest.approx(1.6)
    env.close()


@pytest.mark.parametrize(
    ("strategy", "otherwise", "numbers", "step_rewards", "words"),
    [
        ("mean", 0, (1, 0), 0.5, "the task ends with this step"),
        ("final", 0, (1, 0), 0.0, "the task ends with this step"),
        ("mean", 0.5, (1, 2, 0), (1 + 1 + 0.5) / 3, "do not pass"),
        ("final", 0.5, (0, 0, 3), 1.0, "The tests pass."),
    ],
)
@pytest.mark.long
def test_rewards_of_steps_are_harbors(strategy, otherwise, numbers, step_rewards, words, tmp_path):
    env = make(stepped(tmp_path / "t", f'multi_step_reward_strategy = "{strategy}"', otherwise=otherwise))
    env.reset(seed=0)
    for number in numbers:
        env.step(bash(f"echo {number} > number"))
        observation, _, terminated, _, info = env.step("submit[]")
    assert terminated and words in observation
    assert info["metrics"]["reward"] == pytest.approx(step_rewards) and info["success"] is (step_rewards >= 1)
    env.close()


def test_a_step_that_the_agent_keeps_from_beginning_is_lost(tmp_path):
    env = make(stepped(tmp_path / "t", "", otherwise=0.5))
    env.reset(seed=0)
    (observation, reward, info) = play(env, [bash("true > number"), "submit[]"])[-1]
    assert (reward, info["success"]) == (0.0, False) and "next step cannot begin" in observation, info
    env.close()


@pytest.mark.parametrize("own", ["", "image"])
def test_agent_and_verifier_are_different_users(own, tmp_path):
    toml = f'{ENVIRONMENT}[agent]\n{"" if own else "user = 65534"}\n[verifier]\nuser = "daemon"\n'
    test = '[ "$(id -un) $(cat /app/who)" = "daemon nobody" ] && echo 1 > /logs/verifier/reward.txt\n'
    files = {"instruction.md": "Say who you are.\n", "tests/test.sh": test}
    user = "USER nobody\n" if own else ""
    files["environment/Dockerfile"] = f"FROM {IMAGE}\nRUN mkdir /app && chown nobody /app\n{user}"
    toml = toml.replace(f'docker_image = "{IMAGE}"\n', "")
    env = make(write(tmp_path / "t", toml, files))
    env.reset(seed=0)
    assert env.step(bash("id -un; echo $HOME; touch /etc/x || id -un > who"))[0].startswith("nobody\n/nonexistent\n")
    assert "Operation not permitted" in env.step(bash("kill -9 1"))[0]
    assert "[exit code 1" in env.step(bash("grep -q '^CapEff:.*[1-9a-f]' /proc/self/status"))[0]
    assert env.step("submit[]")[1] == 1.0
    env.close()


SEPARATE = """#!/bin/bash
[ "$(cat /app/answer.txt)" = "$(cat /tests/answer.txt)" ] && [ ! -e /app/more ] && echo 1 > /logs/verifier/reward.txt \
|| echo 0 > /logs/verifier/reward.txt
"""
HOSTILE = r"""
mkdir -p /logs/artifacts /logs/verifier /tests
ln -s /logs/verifier /logs/artifacts/verifier; ln -s /tests /logs/artifacts/tests; ln -s /tests/answer.txt /app/answer.txt
ln /etc/passwd /logs/artifacts/hard; mkfifo /logs/artifacts/pipe; cp /bin/true /bin/rm; cp /bin/true /bin/tar
(setsid nohup bash -c 'while true; do echo 1 > /logs/verifier/reward.txt; echo "{\"reward\": 1}" > /logs/verifier/reward.json
echo 1 > /logs/artifacts/reward.json; python3 -c "
import socket
for last in range(2, 6):
    try: socket.create_connection((\"172.17.0.%d\" % last, 80), 0.1).send(b\"1\")
    except OSError: pass
"; done' > /dev/null 2>&1 &)
"""


@pytest.mark.parametrize("kind", ["dockerfile", "image", "copy"])
def test_a_separate_verifier_sees_artifacts_alone(kind, tmp_path, api):
    test_files = {"tests/test.sh": SEPARATE, "tests/answer.txt": "42\n"}
    dockerfile = f"FROM {IMAGE}\nRUN mkdir -p /app\nCOPY . /tests/\n"
    verifier = 'environment_mode = "separate"\n'
    if kind == "dockerfile":
        test_files["tests/Dockerfile"] = dockerfile
    if kind == "image":
        name = f"agentgym-test/verifier-{os.getpid()}"
        write(tmp_path / "image", "", {"Dockerfile": dockerfile, "test.sh": SEPARATE, "answer.txt": "42\n"})
        list(api.build(path=str(tmp_path / "image"), tag=name, rm=True))
        test_files = {}
        verifier = f'[verifier.environment]\ndocker_image = "{name}"\nmemory_mb = 256\n'
    hook = '[[verifier.collect]]\ncommand = "echo late > more; cp number /app/answer.txt"\n'
    toml = f'artifacts = ["/app/answer.txt"]\n{ENVIRONMENT}[verifier]\n{verifier}{hook}'
    files = {"instruction.md": "Write the answer to number.\n", "solution/solve.sh": "echo 42 > number\n", **test_files}
    env = make(write(tmp_path / "t", toml, files), background=True, seconds=20)
    env.reset(seed=0)
    for action in env.oracle():
        *_, info = env.step(action)
    assert info["success"] is True, info
    env.reset(seed=0)
    env.step(bash("echo 41 > number"))
    env.step(bash(HOSTILE))
    ours = {"label": f"{LABEL}={owner()}"}
    before = {container["Id"] for container in api.containers(filters=ours)}
    observation, reward, _, _, info = env.step("submit[]")
    assert (reward, info["success"]) == (0.0, False), (observation, info)
    assert {container["Id"] for container in api.containers(filters=ours)} == before, "the verifier's container is gone"
    assert not env.sandbox.run("cat /tests/answer.txt; test -s /tests/answer.txt").ok
    env.close()
    if kind == "image":
        api.remove_image(name, force=True)


def test_a_task_has_the_storage_that_it_states(tmp_path):
    files = {"instruction.md": "Do nothing.\n", "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n"}
    env = make(write(tmp_path / "t", f"{ENVIRONMENT}storage_mb = 20\n", files))
    env.reset(seed=0)
    assert env.step(bash("head -c 5000000 /dev/zero > /app/small"))[0] == "[no output]"
    observation, _, terminated, _, info = env.step(bash("head -c 30000000 /dev/zero > /app/large"))
    bounded = "overfull" not in dir(env) and "No space" in observation
    assert bounded or (terminated and info["success"] is False and "more than the 20 MB" in observation)
    env.close()


def test_skills_are_named(tmp_path):
    files = {"instruction.md": "Do nothing.\n", "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n"}
    files["environment/Dockerfile"] = f"FROM {IMAGE}\nRUN mkdir -p /skills/a && echo 'Do it.' > /skills/a/SKILL.md\n"
    env = make(write(tmp_path / "t", '[environment]\nskills_dir = "/skills"\n', files))
    assert "Skills are in `/skills`." in env.reset(seed=0)[0]
    assert env.step(bash("cat /skills/a/SKILL.md"))[0] == "Do it."
    env.close()
