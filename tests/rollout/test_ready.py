"""Environments of a user's own loop: the first M of N that are ready, whatever the others are doing."""

import threading

import pytest

from agentgym import BadConfig, Task, TextEnv, register
from agentgym.rollout.ready import ReadyEnvs

GATES: dict[str, threading.Event] = {}


class Gated(TextEnv):
    """Answers `wait NAME` when the gate of that name opens, and `lose NAME` with an error; `stop` ends the episode."""

    horizon = 9

    def begin(self, task):
        self.steps = 0
        return f"task {task.data['n']}"

    def act(self, action):
        self.steps += 1
        kind, _, name = action.partition(" ")
        if kind in ("wait", "lose"):
            assert GATES[name].wait(30)
        if kind == "lose":
            raise BadConfig("it was lost")
        if kind == "break":
            raise RuntimeError("it broke")
        return self.win("done") if kind == "stop" else f"{action} {self.steps}"

    def state(self):
        return self.steps

    @staticmethod
    def generate(rng, difficulty):
        return Task("go", {"n": int(rng.integers(10**6))})


register("test/Gated-v0", f"{__name__}:Gated")
ID = "test/Gated-v0"


def test_the_first_two_of_three_are_returned_and_the_slow_one_later():
    GATES["a"] = threading.Event()
    with ReadyEnvs(ID, 3, ready=2) as envs:
        assert sorted(answer.number for answer in envs.recv(3)) == [0, 1, 2]
        envs.send([0, 1, 2], ["wait a", "look", "look"])
        first = envs.recv()
        assert sorted(answer.number for answer in first) == [1, 2] and {a.observation for a in first} == {"look 1"}
        envs.send([1], ["again"])
        assert [(a.number, a.observation) for a in envs.recv(1)] == [(1, "again 2")]
        with pytest.raises(BadConfig, match="environment 0 has no answer"):
            envs.send([0], ["look"])
        with pytest.raises(BadConfig, match="recv waits for 2 environments, and 1 have an action"):
            envs.recv()
        GATES["a"].set()
        assert [(a.number, a.observation) for a in envs.recv(1)] == [(0, "wait a 1")]


def test_an_ended_episode_is_followed_by_the_next_and_episodes_are_functions_of_the_seed():
    def played(seed):
        with ReadyEnvs(ID, 2, ready=2, seed=seed) as envs:
            seen = {answer.number: [answer.observation] for answer in envs.recv()}
            envs.send([0, 1], ["stop", "stop"])
            ended = envs.recv()
            assert all(a.over and a.reward == 1 and a.info["success"] for a in ended)
            envs.send([1, 0], ["anything", "anything"])
            for answer in envs.recv():
                assert not answer.over and answer.reward == 0
                seen[answer.number].append(answer.observation)
            return seen

    first = played(3)
    assert first == played(3) != played(4)
    assert len({text for texts in first.values() for text in texts}) == 4


def test_an_error_of_an_environment_is_raised_and_sizes_that_cannot_be_are_refused():
    with pytest.raises(BadConfig, match="number is 2 and ready is 3"):
        ReadyEnvs(ID, 2, ready=3)
    with ReadyEnvs(ID, 1) as envs:
        envs.recv()
        with pytest.raises(BadConfig, match="environment 1 has no answer"):
            envs.send([1], ["look"])
        envs.send([0], ["break"])
        try:
            answer = envs.recv()[0]
        except RuntimeError:
            return
        assert answer.info["reason"] in ("crash", "failure")  # as any episode in which the environment fails


def test_an_error_of_one_environment_loses_no_answer_of_another():
    GATES["b"] = threading.Event()
    with ReadyEnvs(ID, 3, ready=3) as envs:
        envs.recv()
        envs.send([0, 1, 2], ["look", "look", "lose b"])
        threading.Timer(0.2, GATES["b"].set).start()
        with pytest.raises(BadConfig, match="it was lost"):
            envs.recv()
        assert sorted((a.number, a.observation) for a in envs.recv(2)) == [(0, "look 1"), (1, "look 1")]
        envs.send([0, 1, 2], ["look"] * 3)
        assert sorted(answer.number for answer in envs.recv()) == [0, 1, 2]


def test_it_plays_environments_of_the_package():
    with ReadyEnvs("rlvr/GuessNumber-v0", 3, ready=1, seed=1) as envs:
        wins = 0
        while wins < 3:
            (answer,) = envs.recv()
            wins += bool(answer.info["success"])
            guess = next(iter(envs.envs[answer.number].unwrapped.expert())) if not answer.over else ""
            envs.send([answer.number], [guess])
