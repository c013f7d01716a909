"""One episode on the caller's loop: `play`, and `Session` for harnesses that drive the agent themselves."""

import asyncio
import dataclasses
import gc
import multiprocessing

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym.envs.guess_number import GuessNumber
from agentgym.errors import BadConfig, EpisodeOver, Fault
from agentgym.rollout.collect import collect
from agentgym.rollout.pool import RolloutConfig


class Troubled(GuessNumber):
    """Fails in the way its action says."""

    closed = 0

    def act(self, action):
        if action == "raise":
            raise RuntimeError("boom")
        if action == "chance" and not Troubled.closed:
            Troubled.closed = 1
            raise Fault("the connection was lost", reason="timeout")
        return super().act(action)

    def close(self):
        self.was_closed = True


agentgym.register("test/Troubled-v0", Troubled, horizon=9)


def lines(episodes):
    for episode in episodes:
        for turn in episode.turns:
            turn.seconds = 0.0
    return [dataclasses.asdict(episode) for episode in episodes]


def test_play_plays_the_episode_that_collect_plays():
    for id in ("rlvr/Household-v0", "rlvr/TwentyQuestions-v0"):
        env = gym.make(id)
        task = env.unwrapped.tasks(2)[1]
        many = collect(agentgym.RandomAgent(), id, tasks=[task], attempts=2, seed=5, horizon=4)

        async def both(env=env, task=task):
            return [
                await agentgym.play(env, agentgym.RandomAgent(), task=task.id, seed=5, attempt=n, horizon=4) for n in (0, 1)
            ]

        assert lines(asyncio.run(both())) == lines(many)


def test_play_of_an_id_makes_the_environment_and_many_share_a_loop():
    async def main():
        games = [agentgym.play("guessnumber", agentgym.ExpertAgent(), task=n, seed=1, group_id="g") for n in range(3)]
        return await asyncio.gather(*games)

    episodes = asyncio.run(main())
    assert [e.reason for e in episodes] == ["success"] * 3
    assert {e.group_id for e in episodes} == {"g"} and len({e.task_id for e in episodes}) == 3


def test_a_task_that_nobody_named_is_drawn_by_the_seed():
    env = gym.make("rlvr/Household-v0")

    async def main(seed):
        return (await agentgym.play(env, agentgym.RandomAgent(), seed=seed, horizon=1)).task_id

    assert asyncio.run(main(3)) == asyncio.run(main(3)) != asyncio.run(main(4))


class Says:
    """Says what it was told to, whatever is seen."""

    engine = None
    sampling = agentgym.Sampling()

    def __init__(self, *actions):
        self.actions = actions

    def begin(self, task, tools):
        return Speech(self.actions)


class Speech:
    def __init__(self, actions):
        self.actions = list(actions)

    async def take(self, observation, info, *, env, seed, session):
        return agentgym.Turn(observation, action=self.actions.pop(0) if self.actions else "0")

    def fork(self):
        return Speech(self.actions)


def test_in_a_lent_environment_too_a_fault_is_judged_and_the_environment_stays_open():
    env = gym.make("test/Troubled-v0")
    once = asyncio.run(agentgym.play(env, Says("1", "raise"), task=0))
    assert (once.reason, once.success) == ("failure", False)  # the same action fails again, and others do not
    assert "caused a crash twice" in once.error
    Troubled.closed = 0
    by_chance = asyncio.run(agentgym.play(env, Says("1", "chance"), task=0))
    assert by_chance.reason == "horizon" and not by_chance.fault  # it went on elsewhere
    assert not hasattr(env.unwrapped, "was_closed")
    unknown = asyncio.run(agentgym.play(Troubled(horizon=9), Says("raise"), task=0))
    assert unknown.fault  # nobody knows how to make another


def test_a_wrapper_that_hides_the_environment_is_refused_with_what_to_do():
    for wrapped in (gym.wrappers.TimeLimit(gym.make("rlvr/Household-v0"), 3), gym.Wrapper(GuessNumber())):
        with pytest.raises(BadConfig, match=r"agentgym\.TextWrapper"):
            collect(agentgym.RandomAgent(), lambda wrapped=wrapped: wrapped, tasks=1)
        with pytest.raises(BadConfig, match=r"agentgym\.TextWrapper"):
            asyncio.run(agentgym.play(wrapped, agentgym.RandomAgent()))
    with pytest.raises(BadConfig, match="`horizon`"):
        collect(agentgym.RandomAgent(), "rlvr/Household-v0", env_options={"max_episode_steps": 3})


def test_a_time_limit_of_gymnasium_is_a_horizon():
    def make():
        return agentgym.TextWrapper(gym.wrappers.TimeLimit(gym.make("rlvr/Household-v0"), 3))

    (episode,) = collect(agentgym.RandomAgent(), make, tasks=1)
    assert (len(episode.turns), episode.reason, episode.success) == (3, "horizon", False)

    class Gives(gym.Wrapper):
        def step(self, action):
            observation, reward, _, truncated, info = self.env.step(action)
            return observation, reward, True, truncated, info

    (episode,) = collect(agentgym.RandomAgent(), lambda: agentgym.TextWrapper(Gives(gym.make("rlvr/Household-v0"))), tasks=1)
    assert (episode.reason, episode.success) == ("failure", False)
    won = agentgym.TextWrapper(gym.wrappers.TimeLimit(GuessNumber(), 1))
    won.reset(seed=0, options={"task": 0})
    assert won.step(next(iter(won.oracle())))[4]["reason"] == "success"  # what the environment said stays


class Unmade(GuessNumber):
    """Blocks, and cannot be played as it is set up."""

    blocking = True

    def begin(self, task):
        raise BadConfig("no such corpus")


def test_a_bad_configuration_in_a_worker_process_ends_the_rollout():
    with pytest.raises(BadConfig, match="no such corpus"):
        collect(agentgym.RandomAgent(), Unmade, tasks=2, config=RolloutConfig(workers=1))


# Session


def test_a_session_of_tools():
    with agentgym.Session("rlvr/Search-v0") as session:
        assert session.reset(task=0, seed=1).startswith("Question:")
        assert list(session.tools) == ["search", "open", "answer"]
        assert "needs the argument 'query'" in session.call("search", {})
        session.call("search", {"query": "who"})
        session.call("answer", {"text": object()})  # what no JSON can hold is text
        assert (session.turns, session.invalid) == (3, 1 + (not session.info["valid"]))
        for action in session.env.oracle():
            if session.done:
                break
            session.act(action)


def test_a_session_of_commands_offers_act_and_is_safe_after_its_end():
    with agentgym.Session("rlvr/GuessNumber-v0") as session:
        with pytest.raises(EpisodeOver, match="reset"):
            session.act("1")
        session.reset(task=1)
        assert list(session.tools) == ["act"]
        for action in session.env.oracle():
            session.call("act", {"command": action})
        assert (session.done, session.success, session.reason, session.reward) == (True, True, "success", 1.0)
        before = (session.turns, session.rewards, session.invalid)
        assert "episode is over (success)" in session.call("act", {"command": "1"})
        assert "episode is over" in session.act("1")
        assert session.late == 2 and (session.turns, session.rewards, session.invalid) == before
        session.reset(task=2)
        assert (session.late, session.done, session.reward) == (0, False, 0.0)


def test_a_session_ends_in_a_fault_or_in_the_agents_failure_and_never_raises():
    with agentgym.Session("test/Troubled-v0") as session:
        session.reset(task=0)
        session.act("raise")
        assert (session.done, session.success, session.reason) == (True, False, "failure")
    with agentgym.Session(Troubled(horizon=9)) as session:
        session.reset(task=0)
        assert "environment failed" in session.act("raise")
        assert (session.done, session.success, session.reason) == (True, None, "crash") and "boom" in session.error


CALLS = st.tuples(st.text(max_size=9), st.dictionaries(st.text(), st.text()))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.text(max_size=20), st.tuples(st.text(max_size=9), st.dictionaries(st.text(), st.text()))), max_size=15
    )
)
def test_whatever_a_model_writes_a_session_answers_and_counts(calls):
    with agentgym.Session("rlvr/TwentyQuestions-v0") as session:
        session.reset(task=0, seed=1, horizon=6)
        for call in calls:
            assert isinstance(session.act(call) if isinstance(call, str) else session.call(*call), str)
        assert session.turns == min(len(calls), 6) and session.turns + session.late == len(calls)
        assert 0 <= session.invalid <= session.turns and session.done == (session.turns == 6 or bool(session.success))


def test_a_session_leaves_what_it_was_given_open():
    env = gym.make("test/Troubled-v0")
    with agentgym.Session(env) as session:
        session.reset(task=0)
    gc.collect()
    assert not hasattr(env.unwrapped, "was_closed")
    with pytest.raises(BadConfig, match="options"):
        agentgym.Session(env, difficulty=1)


def test_nothing_is_played_after_a_start_that_was_refused():
    with agentgym.Session("rlvr/GuessNumber-v0") as session:
        session.reset("train/0/0")
        session.act("7")
        with pytest.raises(BadConfig, match="horizon is 0"):
            session.reset("train/0/1", horizon=0)
        with pytest.raises(EpisodeOver, match="no episode was started"):
            session.act("7")
        session.reset("train/0/1")
        session.act("7")
        assert (session.turns, session.env.turn, session.env.task.id) == (1, 1, "train/0/1")


def rolled_out(where):
    (episode,) = collect(agentgym.ExpertAgent(), Waits, tasks=1, config=RolloutConfig(workers=1))
    return episode.reason, episode.error


class Waits(GuessNumber):
    blocking = True


def test_environments_that_block_are_played_in_a_pool_of_processes_too():
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # its processes are daemonic
        assert pool.apply(rolled_out, (0,)) == ("success", None)
        assert pool.apply(daemonic)  # as it was


def daemonic():
    return multiprocessing.current_process().daemon


def test_no_worker_starts_that_plays_nothing():
    workers = []
    config = RolloutConfig(workers=2)
    collect(agentgym.ExpertAgent(), Waits, config=config, progress=lambda _: workers.append(workers_running()))
    assert workers == [1]


def workers_running():
    return sum("Spawn" in type(process).__name__ for process in multiprocessing.active_children())
