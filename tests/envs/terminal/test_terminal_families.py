"""Families of terminal tasks: the reference is accepted, plausible mistakes are not, and nobody guesses."""

import json

import pytest

import agentgym
from agentgym.core.env import Task
from agentgym.envs.terminal.scenario import FAMILIES, Final, grade, scenario
from agentgym.envs.terminal.tree import file
from agentgym.sandbox.bubblewrap.sandbox import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a sandbox")
LEVELS = {name: place % 3 for place, name in enumerate(FAMILIES)}


def made(family, ask, fill, level):
    scene = scenario(family, ask, fill, level)
    data = {"family": family, "ask": ask, "fill": fill, "level": level, "answers": list(scene.answers)}
    return Task(scene.instruction, data, id=f"train/{level}/0", split="train", difficulty=level)


def bash(command):
    return json.dumps({"name": "bash", "arguments": {"command": command}})


@pytest.fixture(scope="module")
def environment():
    env = agentgym.make("rlvr/Terminal-v0", seconds=5)
    yield env
    env.close()


def end(env, task, commands):
    """Return the last response after the commands and `submit`."""
    env.reset(seed=0, options={"task": task, "horizon": 60})
    for command in commands:
        *_, truncated, info = env.step(bash(command))
        assert not truncated, info
    return env.step("submit[]")


def hold(env, family, ask, fill, level):
    task, scene = made(family, ask, fill, level), scenario(family, ask, fill, level)
    observation, reward, terminated, _, info = end(env, task, [*scene.look, *scene.solution, *scene.show])
    assert (reward, terminated, info["success"]) == (1.0, True, True), observation
    assert len(scene.wrong) >= 2
    for name, commands in scene.wrong.items():
        observation, reward, terminated, *_ = end(env, task, commands)
        assert (reward, terminated) == (0.0, True), f"{family}: the mistake {name!r} passes"


def test_there_are_enough_families():
    assert len(FAMILIES) == 25


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_is_accepted_and_mistakes_are_not(family, environment):
    hold(environment, family, 3, 4, LEVELS[family])


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 3, 4, 15])
@pytest.mark.parametrize("family", FAMILIES)
def test_and_so_it_is_at_every_level(family, level, environment):
    for seed in range(4 if level < 5 else 1):
        hold(environment, family, seed, seed + 50, level)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_solution_follows_from_the_instruction_alone(family):
    for level in range(4):
        one, two = scenario(family, 1, 2, level), scenario(family, 1, 3, level)
        assert (one.instruction, one.look, one.solution, one.show) == (two.instruction, two.look, two.solution, two.show)
        assert one.tree != two.tree
        assert scenario(family, 9, 2, level).instruction != one.instruction
        assert len(one.instruction) < 3000


@pytest.mark.parametrize("family", FAMILIES)
def test_difficulty_adds_something(family):
    def size(level):
        scene = scenario(family, 1, 2, level)
        return sum(len(entry.content) + 20 for entry in scene.tree.values()) + len(scene.instruction)

    assert size(6) > size(0)


# Other right ways than the reference's.
OTHER_WAYS = {
    "rename": "import os, re\nfor d, _, fs in os.walk('{0}'):\n  for f in fs:\n    if f.endswith('.{1}'): "
    "os.rename(os.path.join(d, f), os.path.join(d, f[:-len('{1}')] + '{2}'))",
    "tally": "import pathlib, collections\nc = collections.Counter(l.split()[3].rstrip(':') for p in pathlib.Path('{0}')"
    ".rglob('*.log') for l in open(p) if l.split()[2] == '{2}')\n"
    "open('{3}', 'w').write('\\n'.join(f'{{k}} {{v}}' for k, v in sorted(c.items(), key=lambda i: (-i[1], i[0]))))",
}


@pytest.mark.parametrize("family", OTHER_WAYS)
def test_other_right_ways_are_accepted(family, environment):
    import re

    task = made(family, 5, 6, 0)
    named = [name.removeprefix(".") for name in re.findall(r"`([\w./-]+)`", task.instruction)]
    code = OTHER_WAYS[family].format(*named)
    observation, reward, *_ = end(environment, task, [f"cat > /tmp/x.py <<'END'\n{code}\nEND\npython3 /tmp/x.py"])
    assert reward == 1.0, f"{observation}\n{code}"


@pytest.mark.parametrize(
    ("family", "content"),
    [
        ("csv", b"a" * 200_000),  # more than a field of the library may hold
        ("csv", b"a\0b,\xff"),
        ("json", b"[" * 100_000),
        ("json", b'{"a":' * 990 + b"1" + b"}" * 990),
        ("json", b"1" * 5000),
        ("ini", b"[a]\nb" + b" " * 5_000_000 + b"c"),  # hours, by the square of its length
        ("ini", b"[a]\nb" + b" \x1c" * 2_500_000 + b"c"),  # which is one line to the parser
        ("ini", b"[a]\nb = 1\n" * 500_000),
    ],
)
def test_whatever_a_file_holds_is_judged(family, content):
    scene = scenario(family, 3, 4, 1)
    left = {**scene.tree, scene.changes[0]: file(content)}
    problem = grade(scene, Final(left, lambda *_: pytest.fail("nothing is to be run")))
    assert problem is not None and "right" in problem


def test_a_commit_in_another_way_is_accepted(environment):
    task, scene = made("git-branch", 2, 2, 0), scenario("git-branch", 2, 2, 0)
    edit = scene.solution[1]
    top = edit.split()[-1].partition("/")[0]
    branch = scene.solution[0].split()[-2]
    tag = scene.solution[0].split()[-1]
    commit = scene.solution[2].replace(f"git -C {top}", f"git -C {top}/../{top}-tree")
    way = [
        f"cd {top} && git worktree add -q -b {branch} ../{top}-tree {tag}",
        "cd ..; " + edit.replace(f" {top}/", f" {top}-tree/"),
        commit,
        f"git -C {top} worktree remove ../{top}-tree; git -C {top} gc -q; git -C {top} pack-refs --all",
    ]
    observation, reward, *_ = end(environment, task, way)
    assert reward == 1.0, observation


def test_a_graft_is_no_merge(environment):
    task, scene = made("git-merge", 2, 2, 0), scenario("git-merge", 2, 2, 0)
    top, other = scene.solution[0].split()[2], scene.solution[0].split()[-1]
    squashed = (
        f"cd {top}; own=$(git rev-parse main^1); made=$(git commit-tree main^{{tree}} -p main^1 -m squashed); "
        f"echo $made $own $(git rev-parse {other}) > .git/grafts; git reset -q --hard $made; "
        "mkdir -p .git/info; mv .git/grafts .git/info/grafts"
    )
    observation, reward, *_ = end(environment, task, [*scene.solution, squashed])
    assert reward == 0.0 and "main is a merge" in observation


def test_a_tag_is_no_branch(environment):
    task, scene = made("git-branch", 2, 2, 0), scenario("git-branch", 2, 2, 0)
    top = scene.solution[1].split()[-1].partition("/")[0]
    moved = f"git -C {top} tag main main; git -C {top} update-ref refs/heads/main HEAD"
    observation, reward, *_ = end(environment, task, [*scene.solution, moved])
    assert reward == 0.0 and "main is where it was" in observation
