"""Packages of `agentgym package` for the tests of the projects that read them."""

import sys
from pathlib import Path

import pytest

from agentgym.cli import main

ENV = "packaged_there:mine/Doors-v0"
MODULE = '''
"""Find the door."""

import agentgym


class Doors(agentgym.TextEnv):
    """Open the right one of three doors."""

    horizon = 4
    declared = agentgym.Declarations(answers=("door",), random_bound=0.9)

    def begin(self, task):
        self.tried = []
        return "Doors: red, green, blue. Open one, for example: open red"

    def act(self, action):
        if action not in self.admissible():
            return self.invalid("Open a door: open red, open green or open blue.")
        self.tried.append(action)
        return self.win("The door opens.") if action == f"open {self.task.data['door']}" else "Locked."

    def admissible(self):
        return ["open red", "open green", "open blue"]

    def state(self):
        return self.tried

    def oracle(self):
        yield f"open {self.task.data['door']}"

    def expert(self):
        yield next(each for each in self.admissible() if each not in self.tried)

    @staticmethod
    def generate(rng, difficulty):
        door = str(rng.choice(["red", "green", "blue"]))
        return agentgym.Task(instruction="find the door", data={"door": door, "number": int(rng.integers(1e9))})


agentgym.register("mine/Doors-v0", "packaged_there:Doors")
'''


def package(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str = ENV, *flags: str) -> Path:
    """Return the folder of the package of an environment; with no other, that of a module of its own."""
    here = tmp_path / "author"
    here.mkdir()
    (here / "packaged_there.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.delitem(sys.modules, "packaged_there", raising=False)
    folder = tmp_path / "packages" / "doors"
    assert main(["package", env, "--for", project, "--out", str(folder), *flags]) == 0
    monkeypatch.delitem(sys.modules, "packaged_there", raising=False)
    sys.path.remove(str(here))  # from here on the copy in the package alone has it
    return folder
