"""Whose a fault is: what an agent's text or program brings about is its failure; the rest is an infrastructure error."""

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import agentgym
from agentgym.agents import consult
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.episodes.episode import Turn, groups
from agentgym.errors import RULED_OUT, Fault
from agentgym.rollout.collect import collect
from agentgym.rollout.pool import RolloutConfig

MARKS = "AGENTGYM_TEST_MARKS"
"""A folder where the environments below leave marks that outlive their processes."""


class Hostile(GuessNumber):
    """A guessing game that does what it is told to: hang, die, raise, or be a trap for the next action."""

    def begin(self, task):
        self.trap = ""
        return super().begin(task)

    def act(self, action):
        what = self.trap or action
        if action.startswith("trap "):
            self.trap = action.removeprefix("trap ")
            return "A trap is set."
        if what == "hang":
            time.sleep(60)
        if what == "die":
            os._exit(3)
        if what == "raise":
            raise RuntimeError("boom")
        if what == "memory":
            raise MemoryError
        if what == "fault":
            raise Fault("the sandbox is gone")
        if what == "ruled out":
            raise Fault(f"{RULED_OUT}the tests give no reward")
        if what == "forge":
            raise RuntimeError(f"{RULED_OUT}words of a model")
        if what == "once":
            self.only_once("crash")
        if action == "7" and os.environ.get("AGENTGYM_TEST_SERVER") == "down":
            raise Fault("no answer from the server")
        return super().act(action)

    def only_once(self, name):
        mark = Path(os.environ[MARKS]) / name
        if not mark.exists():
            mark.touch()
            raise Fault("the connection was lost")

    def health_check(self):
        if os.environ.get("AGENTGYM_TEST_SERVER") == "down":
            raise Fault("no answer from the server")


class HostileRemote(Hostile):
    blocking = True

    def act(self, action):
        time.sleep(0.01)
        return super().act(action)


def expert(env):
    return next(iter(env.expert()))


@dataclass
class Script:
    """Plays the actions of a task, then the expert's."""

    actions: list[str]
    turns: int = 0
    engine: object = None

    async def take(self, observation, info, *, env, seed, session):
        await asyncio.sleep(0)
        self.turns += 1
        action = self.actions[self.turns - 1] if self.turns <= len(self.actions) else await consult(env, expert)
        return Turn(observation, action=action)

    def fork(self):
        return Script(self.actions, self.turns)


@dataclass
class Agent:
    """Plays scripts by the number of the task."""

    scripts: dict[int, list[str]]
    engine: object = None
    sampling: agentgym.Sampling = field(default_factory=agentgym.Sampling)

    def begin(self, task, tools):
        return Script(self.scripts.get(int(task.id.rsplit("/", 1)[1]), []))


def played(kind, scripts, tasks=3, *, concurrency=None, workers=2, step_seconds=1.0, **options):
    config = RolloutConfig(concurrency or tasks, workers, step_seconds)
    return collect(Agent(scripts), kind, tasks=tasks, config=config, **options)


@pytest.mark.parametrize("what", ["hang", "raise", "memory", "fault"])
def test_what_an_action_brings_about_is_the_agents_failure(what):
    episodes = played(Hostile, {1: [what]}, step_seconds=0.3)
    assert [e.success for e in episodes] == [True, False, True]
    lost = episodes[1]
    assert (lost.reason, lost.fault, [t.action for t in lost.turns]) == ("failure", False, [what])
    assert "the agent's actions caused" in lost.error and lost.turns[-1].valid is False
    assert len(groups(episodes)) == 3  # it is trained on and counted


@pytest.mark.long
@pytest.mark.parametrize("what", ["hang", "die"])
def test_in_worker_processes_too_and_nobody_else_is_disturbed(what):
    episodes = played(HostileRemote, {1: [what]}, tasks=5, workers=1, step_seconds=3.0)
    assert [e.success for e in episodes] == [True, False, True, True, True]
    assert episodes[1].reason == "failure" and [t.action for t in episodes[1].turns] == [what]
    honest = played(HostileRemote, {}, tasks=5)
    assert [[t.action for t in e.turns] for e in episodes if e.success] == [
        [t.action for t in e.turns] for e in honest if e.task_id != episodes[1].task_id
    ]


def test_a_trap_set_by_an_earlier_action_is_the_agents_too():
    episodes = played(Hostile, {0: ["trap fault", "50"], 1: ["trap raise"]})
    assert [(e.success, e.reason, len(e.turns)) for e in episodes[:2]] == [(False, "failure", 2), (False, "failure", 2)]


@pytest.mark.parametrize("kind", [Hostile, HostileRemote])
def test_after_a_fault_by_chance_the_episode_goes_on_where_it_was(tmp_path, monkeypatch, kind):
    monkeypatch.setenv(MARKS, str(tmp_path))
    episodes = played(kind, {1: ["50", "once"]})
    assert list(tmp_path.iterdir())
    honest = played(kind, {1: ["50", "once"]})  # without a fault: the mark is there
    assert [e.success for e in episodes] == [True] * 3
    assert [t.observation for t in episodes[1].turns] == [t.observation for t in honest[1].turns]
    assert [t.action for t in episodes[1].turns] == [t.action for t in honest[1].turns]


def test_what_a_health_check_confirms_is_an_infrastructure_error(monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_SERVER", "down")
    episodes = played(Hostile, {1: ["7"]}, tasks=2)
    assert (episodes[1].success, episodes[1].reason) == (None, "crash") and "no answer" in episodes[1].error
    monkeypatch.setenv("AGENTGYM_TEST_SERVER", "up")
    assert [e.success for e in played(Hostile, {1: ["7"]}, tasks=2)] == [True, True]


def test_a_fault_whose_environment_has_made_the_control_is_an_infrastructure_error():
    episodes = played(Hostile, {1: ["ruled out"], 0: ["forge"]}, tasks=2)
    assert (episodes[1].success, episodes[1].reason) == (None, "crash") and "give no reward" in episodes[1].error
    assert (episodes[0].success, episodes[0].reason) == (False, "failure")  # no word of an environment's, but an exception


def test_a_program_that_faults_at_random_gains_no_second_draw(tmp_path, monkeypatch):
    """It is repeated, not played again: the agent is asked once for every turn, and its last action stands."""
    monkeypatch.setenv(MARKS, str(tmp_path))
    calls = []

    class Counting(Agent):
        def begin(self, task, tools):
            calls.append(task.id)
            return super().begin(task, tools)

    collect(Counting({1: ["once"]}), Hostile, tasks=3)
    assert sorted(calls) == ["train/0/0", "train/0/1", "train/0/2"]


class Server(ScriptedEngine):
    """Refuses prompts that hold a word, or everything while it is down."""

    def __init__(self, *arguments, refuses="FORBIDDEN", down=False, **options):
        super().__init__(*arguments, **options)
        self.refuses, self.down, self.requests = refuses, down, 0

    async def generate(self, prompt, sampling, session, **options):
        self.requests += 1
        if (self.down and self.requests > 1) or self.refuses in self.tokenizer.decode(prompt):
            raise Fault("the server refused with status 400", reason="engine")
        return await super().generate(prompt, sampling, session, **options)


@pytest.mark.parametrize(("down", "expected"), [(False, (False, "failure")), (True, (None, "engine"))])
def test_a_reply_that_the_engine_refuses_to_read_is_a_failure_unless_it_refuses_all(down, expected):
    engine = Server(lambda prompt, turn: "FORBIDDEN", down=down)
    agent = agentgym.ChatAgent(engine, prompt="bare")
    episode = collect(agent, "rlvr/GuessNumber-v0", tasks=1)[0]
    assert (episode.success, episode.reason) == expected
    assert "status 400" in episode.error
    if not down:
        assert len(episode.turns) == 1 and len(groups([episode])) == 1


class Broken(Server):
    """An engine that breaks with an error of its own."""

    async def generate(self, prompt, sampling, session, **options):
        raise RuntimeError("CUDA error: an illegal memory access")


class BrokenChat:
    """Plain chat, the same."""

    def abort(self, session):
        pass

    async def chat(self, messages, tools, sampling, session):
        raise RuntimeError("CUDA error: an illegal memory access")


@pytest.mark.parametrize(
    "agent",
    [
        lambda: agentgym.ChatAgent(Broken(["7"]), prompt="bare"),
        lambda: agentgym.MessageAgent(BrokenChat()),
    ],
)
def test_an_engine_that_breaks_before_the_model_has_said_anything_is_an_infrastructure_error(agent):
    for episode in collect(agent(), "rlvr/GuessNumber-v0", tasks=2):
        assert (episode.success, episode.reason) == (None, "crash") and "CUDA" in episode.error


@pytest.mark.parametrize("engine", [ScriptedEngine(["7"] * 9), BrokenChat()])
def test_an_agent_whose_first_prompt_cannot_be_made_is_no_failure_of_the_model(engine, monkeypatch):
    kind = agentgym.MessageAgent if isinstance(engine, BrokenChat) else agentgym.ChatAgent
    agent = kind(engine)

    def begin(task, tools):
        talk = kind.begin(agent, task, tools)
        monkeypatch.setattr(type(talk), "prompt", lambda *_: 1 / 0)
        return talk

    monkeypatch.setattr(agent, "begin", begin)
    assert [e.reason for e in collect(agent, "rlvr/GuessNumber-v0", tasks=2)] == ["crash"] * 2
