"""The facts that `agentgym envs` lists are those of the environments."""

import importlib.util
import shutil
import subprocess
import sys

import pytest

from agentgym import TextEnv
from agentgym.cli import env_facts, envs
from agentgym.envs.miniwob.pages import folder
from agentgym.errors import MissingExtra
from agentgym.registry import ENVS, class_of, make

USERS_DATA = {"rlvr/ALFWorld-v0", "rlvr/Harbor-v0", "rlvr/SWEBench-v0", "rlvr/WebShop-v0"}
OWN_CHECK = {"rlvr/Terminal-v0"}


def test_every_environment_that_needs_no_data_has_a_row():
    assert env_facts.FACTS.keys() == ENVS.keys() - USERS_DATA - OWN_CHECK
    assert list(env_facts.FACTS) == sorted(env_facts.FACTS)


@pytest.mark.parametrize("id", env_facts.FACTS)
def test_facts_are_those_of_the_environment(id):
    facts, kind = env_facts.FACTS[id], class_of(id)
    assert kind is not None
    assert kind.oracle is not TextEnv.oracle  # every row is listed with one
    assert bool(facts.needs) == (kind.requires is not TextEnv.requires)
    if env_facts.known(id) is None:
        with pytest.raises(MissingExtra):
            make(id)
        return
    with make(id) as env:
        assert (facts.tools, facts.splits) == (len(env.tools), tuple(env.splits))


PACKAGES = [
    (id, name) for id, facts in env_facts.FACTS.items() for name in facts.needs if name not in ("bubblewrap", "browser")
]


@pytest.mark.parametrize(("id", "name"), [*PACKAGES, ("rlvr/Web-v0", "playwright"), ("rlvr/Code-v0", "bwrap")])
def test_without_what_it_needs_an_environment_is_made_and_says_so(id, name, monkeypatch):
    find, which = importlib.util.find_spec, shutil.which
    monkeypatch.setattr(importlib.util, "find_spec", lambda one, *rest: None if one == name else find(one, *rest))
    monkeypatch.setattr(shutil, "which", lambda one, *a, **k: None if one == name else which(one, *a, **k))
    folder.cache_clear()
    assert env_facts.known(id) is None
    assert isinstance(envs._made(id), str)


def test_the_list_imports_no_environment_that_it_knows():
    code = "import sys, agentgym.cli.envs as envs; envs.envs(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"flask", "scipy", "bm25s", "torch", "agentgym.envs.desk", "agentgym.envs.web"}
