"""A harness in the container of its task: it speaks to the gateway and to nothing else, and its turns have the container's
state.

The harness is a small program of the tests, in the form that anybody's takes: a TOML file. Those of the package are played
where AGENTGYM_HARNESS_IMAGE names an image with Node.js and Python's venv: they are installed from npm and PyPI.
"""

import asyncio
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
from conftest import PYTHON
from native_talks import SOURCES, SURVEY

from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Call
from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig
from agentgym.gateway.sessions import Budget
from agentgym.harness.agent import HarnessAgent
from agentgym.harness.description import Harness, load
from agentgym.harness.gateway_agent import Access
from agentgym.harness.lent import Run
from agentgym.registry import make
from agentgym.sandbox.docker.changes import Changes
from agentgym.sandbox.docker.sandbox import Docker
from agentgym.sandbox.env import ExternalAccess
from agentgym.sandbox.protocol import SAME
from agentgym.trainers.data.segments import build

TERMINAL = "rlvr/Terminal-v0"
IMAGE = os.environ.get("AGENTGYM_HARNESS_IMAGE", "")
SHELL: dict[str, tuple[str, str, dict[str, object]]] = {
    "claude-code": ("Bash", "command", {"description": "Do"}),
    "codex": ("exec_command", "cmd", {}),
    "mini-swe-agent": ("bash", "command", {}),
    "opencode": ("bash", "command", {"description": "Do"}),
    "qwen-code": ("run_shell_command", "command", {"is_background": False}),
}
INSTALL = {"install_network": os.environ["AGENTGYM_HARNESS_NETWORK"]} if "AGENTGYM_HARNESS_NETWORK" in os.environ else {}
BESIDE_OWN = [pytest.param(name, marks=pytest.mark.skipif(not IMAGE, reason="no image")) for name in SHELL]
"""Harnesses of the package, which are installed where AGENTGYM_HARNESS_IMAGE names an image."""
OWN = """
about = "runs the command in each reply, until a reply has none"
install = "mkdir -p /opt/agentgym && echo installed > /opt/agentgym/note"
start = ["python3", "-I", "{memory}/bin/play.py", "{base_url}", "{api_key}", "{model}", "{instruction}"]
grace = 1.0

[files]
"bin/play.py" = '''
import json, subprocess, sys, urllib.request
assert open("/opt/agentgym/note").read() == "installed\\n"
base, key, model, task = sys.argv[1:]
messages = [{"role": "user", "content": task}]
while True:
    body = json.dumps({"model": model, "messages": messages}).encode()
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(base + "/chat/completions", body, headers)) as reply:
        said = json.load(reply)["choices"][0]["message"]["content"]
    if not said.startswith("RUN "):
        break
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    ran = subprocess.run(["bash", "-c", said[4:]], env={"KEY": key, "BASE": base, "HOME": "/home/agent"}, **pipe)
    out = ran.stdout.decode("utf-8", "replace")
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": out or "(nothing)"}]
'''
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return f"harness:{path}"


def played(
    harness: str, reply: Callable[[str, int], str], tasks: Any, *, image: Any = PYTHON, tokenizer: Any = None, **how: Any
) -> Any:
    """Return the episodes of a harness at tasks, by default Terminal's, with a script for a model."""
    engine = ScriptedEngine(reply, tokenizer)
    seconds = how.pop("seconds", 120.0)
    settings = {"options": {"backend_options": image}, **how}
    env, attempts, concurrency = settings.pop("env", TERMINAL), settings.pop("attempts", 1), settings.pop("concurrency", 2)
    agent = HarnessAgent(None, engine, engine.tokenizer, 1.0, 4096, seconds, harness=load(harness), **settings)
    try:
        return asyncio.run(agent.collect(env, tasks=tasks, attempts=attempts, concurrency=concurrency))
    finally:
        agent.close()


def terminal(number: int) -> tuple[list[Any], dict[str, list[str]]]:
    """Return tasks, and by instruction the commands that do them."""
    with make(TERMINAL, backend="docker", backend_options=PYTHON) as env:
        tasks = env.tasks(number)
        return tasks, {task.instruction: list(env._scene(task).solution) for task in tasks}  # type: ignore[attr-defined]


def answers(prompt: str) -> int:
    return prompt.count("<|im_start|>assistant") - 1


def scripted(name: str, steps: list[str], *, bash: bool = True) -> Callable[[str, int], str]:
    """Return the model that has a harness run commands, by default in bash, and end; `own` is the tests' harness."""

    def own(prompt: str, turn: int) -> str:
        return f"RUN {steps[answers(prompt)]}" if answers(prompt) < len(steps) else "Done."

    def reply(prompt: str, turn: int) -> str:
        tool, parameter, more = SHELL[name]
        if f'"{tool}"' not in prompt:
            return "A title"  # a call beside the main conversation
        done = prompt.count("<tool_response>")
        if done == len(steps) and name != "mini-swe-agent":
            return "Done."
        step = steps[done] if done < len(steps) else "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        command = f"bash -c {shlex.quote(step)}" if bash and done < len(steps) else step
        return "".join(FAMILIES["hermes"].write(Call(tool, {parameter: command, **more})))

    return own if name == "own" else reply


def test_a_harness_of_a_file_solves_tasks_in_exact_tokens_with_the_state_of_each_turn(own: str) -> None:
    tasks, solutions = terminal(3)

    def reply(prompt: str, turn: int) -> str:
        solution = next(solutions[task] for task in solutions if task in prompt)
        return f"RUN {solution[answers(prompt)]}" if answers(prompt) < len(solution) else "Done."

    episodes = played(own, reply, tasks, attempts=2)
    assert [(e.success, e.reason, e.reward) for e in episodes] == [(True, "success", 1.0)] * 6
    for one, other in zip(episodes[::2], episodes[1::2], strict=True):
        keys = [turn.state_key for turn in one.turns]
        assert len({*keys}) == len(keys) > 1 and None not in keys  # every command of a solution changes something
        assert keys == [turn.state_key for turn in other.turns]
        (row,) = build([one])
        assert row.trained == sum(len(turn.output_ids) for turn in one.turns)
        assert one.metrics["drifted_tokens"] == 0 and one.metrics["rows"] == 1 and one.metrics["exit_code"] == 0


def test_what_a_harness_reaches(own: str) -> None:
    """The gateway, with the key of its own attempt; no other address, and nothing of the gateway that would judge."""
    tasks, _ = terminal(1)
    ask = (
        "import json, os, socket, urllib.request, urllib.error\n"
        "def code(path, key=os.environ['KEY'], body=b'{}'):\n"
        "    headers = {'Authorization': 'Bearer ' + key, 'Content-Type': 'application/json'}\n"
        "    try:\n"
        "        with urllib.request.urlopen(urllib.request.Request(os.environ['BASE'] + path, body, headers)) as r:\n"
        "            return r.status\n"
        "    except urllib.error.HTTPError as e:\n"
        "        return e.code\n"
        "name = os.environ['KEY'].partition(':')[2]\n"
        "def reached(where):\n"
        "    try:\n"
        "        return bool(socket.create_connection(where, 2))\n"
        "    except OSError:\n"
        "        return False\n"
        "own = '/sessions/' + name\n"
        "print(json.dumps([code('/models', body=None), code(own + '/finish'), code(own + '/key'),\n"
        "    code('/sessions/other/finish'), code('/models', key='x', body=None),\n"
        "    [reached(w) for w in (('1.1.1.1', 53), ('172.17.0.1', 80), ('192.0.2.1', 80))],\n"
        "    [n for n in os.listdir('/sys/class/net')]]))"
    )
    replies = iter([f"RUN python3 -I -c {shlex.quote(ask)}", "RUN cat /proc/net/route | wc -l; ls /var/run/*.sock"])
    (episode,) = played(own, lambda prompt, turn: next(replies, "Done."), tasks)
    seen, routes = (turn.observation for turn in episode.turns[1:])
    assert json.loads(seen) == [200, 403, 403, 403, 401, [False, False, False], ["lo"]], seen
    assert routes.split()[0] in ("0", "1") and "No such file" in routes
    assert (episode.success, episode.reason) == (False, "failure")


@pytest.mark.parametrize(
    "command",
    ["kill -9 -1", "pkill -9 python3; kill -9 $PPID", "for f in $(seq 300); do sleep 100 & done; kill -9 $PPID", "exit 3"],
)
def test_what_a_harness_does_to_itself_is_the_policys_failure(own: str, command: str) -> None:
    tasks, _ = terminal(1)
    replies = iter([f"RUN {command}"])
    (episode,) = played(own, lambda prompt, turn: next(replies, "Done."), tasks, seconds=30.0)
    assert (episode.success, episode.reason, episode.reward) == (False, "failure", 0.0) and episode.turns


def test_a_harness_that_asks_nothing_is_an_infrastructure_error_that_shows_its_words(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text('start = ["sh", "-c", "echo no such model >&2; exit 7", "{instruction}"]')
    tasks, _ = terminal(1)
    (episode,) = played(f"harness:{path}", lambda prompt, turn: "Done.", tasks)
    assert (episode.success, episode.reason) == (None, "crash")
    assert "asked the model nothing (exit, exit code 7): no such model" in (episode.error or "")


def test_budgets_end_a_harness_and_what_it_left_is_judged(own: str) -> None:
    tasks, solutions = terminal(1)
    (solution,) = solutions.values()

    def reply(prompt: str, turn: int) -> str:
        return f"RUN {solution[answers(prompt)] if answers(prompt) < len(solution) else 'true'}"

    (episode,) = played(own, reply, tasks, budget=Budget(turns=len(solution) + 2))
    assert (episode.success, len(episode.turns)) == (True, len(solution) + 2)
    (episode,) = played(own, lambda prompt, turn: "RUN sleep 100", tasks, seconds=15.0)
    assert (episode.success, episode.reason, len(episode.turns)) == (False, "failure", 1)


def test_an_environment_without_a_sandbox_or_an_image_ends_the_rollout(own: str) -> None:
    tasks, _ = terminal(1)
    with pytest.raises(BadConfig, match="has no image 'none/of/this'"):
        played(own, lambda prompt, turn: "Done.", tasks, image={**PYTHON, "image": "none/of/this"})


# The state of a container


@pytest.fixture(params=[False, True], ids=["in memory", "writable"])
def box(request: pytest.FixtureRequest) -> Any:
    options = {"writable": True, "user": "root", "work": "/work"} if request.param else {}
    with Docker(**PYTHON, **options) as sandbox:
        yield sandbox


ALIKE = [
    ("echo a > f; echo b > g", "echo b > g; echo a > f"),
    ("mkdir -p d && echo a > d/f", "mkdir d; echo b > d/f; echo a > d/f"),
    ("ln -s f l", "ln -s x l; rm l; ln -s f l"),
    ("mkdir -p /tmp/own; echo 1 > /tmp/own/a", "mkdir -p /tmp/own; echo 2 > /tmp/own/b"),
]
UNLIKE = [
    "true", "echo a > f", "echo b > f", "echo a > g", "mkdir f", "ln -s a f", "ln -s b f", "echo a > f; chmod 600 f",
    "echo a > /tmp/f", "echo a > /dev/shm/f", "mkdir d; echo a > d/f", "mkfifo f", "printf 'a\\n' > $'f\\n1'",
]  # fmt: skip


def test_equal_changes_have_equal_keys_and_equal_answers(box: Any) -> None:
    """The law: from equal keys on, equal commands have equal answers."""
    look = "find . /tmp /dev/shm -path /tmp/own -prune -o -printf '%p %M %U %l\\n' | sort; cat f g d/f 2>&1"
    changes = Changes(box, ["/tmp/own"])
    clear = "rm -rf -- ./* /tmp/* /dev/shm/*"
    seen: dict[str, str] = {}
    for command in [command for pair in ALIKE for command in pair] + UNLIKE:
        box.run(clear)
        box.run(command)
        key, answer = changes.key(), box.run(look).text
        assert key is not None and seen.setdefault(key, answer) == answer, command
    for one, other in ALIKE:
        keys = []
        for command in (one, other):
            box.run(clear)
            box.run(command)
            keys.append(changes.key())
        assert keys[0] == keys[1], (one, other)
    assert len(seen) >= len(UNLIKE)


def test_the_environment_of_a_task_is_a_part_of_its_state(box: Any) -> None:
    keys = [Changes(box, [], variables).key() for variables in ({}, {"A": "1"}, {"A": "2"}, {"A": "1"}, {"A": "1", "B": ""})]
    assert None not in keys and keys[1] == keys[3] and len({*keys}) == 4
    with Docker(**PYTHON, environment={"A": "1"}) as other:
        assert Changes(other, []).key() != Changes(other, [], {"A": "2"}).key()


def test_files_of_the_harness_are_no_state_and_nothing_is_judged_by_them(box: Any) -> None:
    """Its files in the home folder may differ between equal states, and they are gone before an environment judges."""
    keys: list[str | None] = []
    for number, files in enumerate(([".own"], [".own"], [])):
        write = f"mkdir -p ~/.own/a; echo {number} | tee ~/.own/a/f > /tmp/agentgym-harness/g; ls ~/.own > /dev/shm/seen"
        harness = Harness("own", ("/bin/sh", "-c", write), own_files=tuple(files))
        watched: list[Changes | None] = []
        run = Run(harness, Access("http://127.0.0.1:9/v1", "k", "m"), "", 60.0, 10, 10, watched.append)
        run.work(ExternalAccess(box, SAME, box.work, {}))
        assert box.run("cat /dev/shm/seen").text == "a\n" and watched[0] is not None and watched[-1] is None
        left = box.run("cat ~/.own/a/f /tmp/agentgym-harness/g 2> /dev/null").text
        assert left == ("" if files else f"{number}\n")
        box.run(f"mkdir -p ~/.own/a; echo {number} > ~/.own/a/f")
        keys.append(watched[0].key())
    assert keys[0] == keys[1] is not None and keys[2] != keys[0]


def test_there_is_no_key_while_a_process_outlives_its_command_or_a_file_cannot_be_read(box: Any) -> None:
    changes = Changes(box, [])
    assert changes.key() is not None
    stream = box.stream("-", ["sleep", "100"])
    assert changes.key() is None
    stream.close()
    assert stream.read() == b"" and changes.key() is not None
    box.run("truncate -s 300M /tmp/sparse || truncate -s 40M f; chmod 000 f 2>/dev/null")
    assert box.spec.writable or changes.key() is None


# The harnesses of the package

NUMBER = int(os.environ.get("AGENTGYM_HARNESS_TASKS", "2"))


@pytest.mark.skipif(not IMAGE, reason="AGENTGYM_HARNESS_IMAGE names no image with Node.js and venv, to install harnesses in")
@pytest.mark.parametrize("name", SHELL)
def test_a_harness_of_the_package_solves_tasks_with_its_own_tools(name: str) -> None:
    tasks, solutions = terminal(NUMBER)

    def reply(prompt: str, turn: int) -> str:
        return scripted(name, next((solutions[task] for task in solutions if task in prompt), []))(prompt, turn)

    image = {**PYTHON, **INSTALL, "image": IMAGE}
    tokenizer = SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    episodes = played(f"harness:{name}", reply, tasks, image=image, tokenizer=tokenizer, seconds=600.0)
    for episode in episodes:
        main = [turn for turn in episode.turns if "side" not in turn.extra]
        assert episode.success, (episode.error, episode.reason, episode.metrics)
        assert episode.metrics["drifted_tokens"] == 0 and len(build([episode])) == episode.metrics["rows"]
        assert len(main) > 1 and len({turn.state_key for turn in main}) > 1
    print(f"\n{name}: {sum(bool(e.success) for e in episodes)} of {len(episodes)} solved")


@pytest.mark.parametrize("name", BESIDE_OWN)
def test_a_harness_of_the_package_refuses_no_command(name: str) -> None:
    """Codex refuses `rm -f` unless a rule allows it; and what a harness writes for itself is no state."""
    tasks, _ = terminal(1)
    steps = ["mkdir -p d/e && echo > d/f", "rm -rf d", "mkdir d; /bin/rm -rf d; for f in d; do rm -f $f; done; echo DONE"]
    tokenizer, image = SURVEY.tokenizer_for(SOURCES["qwen2_5"]), {**PYTHON, **INSTALL, "image": IMAGE}

    (episode,) = played(
        f"harness:{name}", scripted(name, steps, bash=False), tasks, image=image, tokenizer=tokenizer, seconds=600.0
    )
    main = [turn for turn in episode.turns if "side" not in turn.extra]
    keys = [turn.state_key for turn in main]
    assert keys[0] == keys[2] == keys[3] != keys[1] and None not in keys, [turn.observation[-300:] for turn in main]
    assert "DONE" in main[3].observation
