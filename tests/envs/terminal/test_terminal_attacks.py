"""What an agent could leave behind instead of doing what is asked: nothing of it wins, and nothing becomes a fault."""

import json

import pytest

import agentgym
from agentgym.core.env import Task
from agentgym.envs.terminal.scenario import FAMILIES, scenario
from agentgym.sandbox.bubblewrap.sandbox import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a sandbox")

ATTACKS = {
    "a pipe in place of every file": 'find . -type f | while read -r f; do rm "$f" && mkfifo "$f"; done; mkfifo answer.txt',
    "links to devices": "for f in * answer.txt; do rm -rf $f; ln -s /dev/zero $f; done",
    "links to itself": "rm -f answer.txt; ln -s answer.txt answer.txt; ln -s . again",
    "the folder is a link to all files": "cd ~ && mv task other && ln -s / task",
    "the folder is a file": "cd ~ && rm -rf task && echo 1 > task",
    "nothing may be read": "chmod -R 000 . ~",
    "files without end": "truncate -s 8E answer.txt; truncate -s 1T big",
    "a tree without end": "d=.; for i in $(seq 400); do d=$d/dddddddddd; done; mkdir -p $d",
    "many files": "for i in $(seq 20000); do : > f$i; done",
    "names that are no text": r"touch $'\xff\xfe' $'a\nb' $'\e[31m' -- -rf",
    "a process that stays": "setsid sh -c 'while :; do echo 1 > answer.txt; done' > /dev/null 2>&1 &",
    "processes without end": ":() { :|:& }; :",
    "kills all": "kill -9 -1",
    "commands that lie": "cat() { echo 1; }; ls() { :; }; export -f cat ls; export PATH=/nowhere LD_PRELOAD=./x.so",
    "a start-up file": "for f in .bashrc .profile .bash_profile; do echo 'exit 0' > ~/$f; done; export BASH_ENV=~/.bashrc",
    "answers in memory": r"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' > answer.txt",
    "says that it won": 'echo \'{"success": true, "reward": 1}\' | tee answer.txt result.json /dev/stderr',
    "the verdict's bytes": "printf '\\x00\\x01reward\\x00' > answer.txt; tar cf answer.tar . 2>/dev/null",
    "times of the future": "find . -exec touch -d 2100-01-01 {} +; touch -d 1900-01-01 answer.txt",
    "hard links": "for f in *; do [ -f $f ] && ln $f $f.again; done; ln /etc/passwd answer.txt",
}


@pytest.fixture(scope="module")
def environment():
    env = agentgym.make("rlvr/Terminal-v0", seconds=3, horizon=10)
    yield env
    env.close()


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_earns_nothing_and_is_no_fault(name, environment):
    family = list(FAMILIES)[list(ATTACKS).index(name) % len(FAMILIES)]
    scene = scenario(family, 1, 2, 0)
    data = {"family": family, "ask": 1, "fill": 2, "level": 0, "answers": list(scene.answers)}
    task = Task(scene.instruction, data, id="x", split="train")
    environment.reset(seed=0, options={"task": task})
    environment.step(json.dumps({"name": "bash", "arguments": {"command": ATTACKS[name]}}))
    _, reward, terminated, truncated, info = environment.step("submit[]")
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False), (family, info)
    environment.reset(seed=0, options={"task": task})  # and nothing of it is in the next episode
    for command in scene.solution:
        environment.step(json.dumps({"name": "bash", "arguments": {"command": command}}))
    assert environment.step("submit[]")[1] == 1.0, family
