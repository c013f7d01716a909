"""Text goes through Gymnasium's vector environments as it is."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.core.spaces import Unicode

ODD = "Grüße, 世界 \U0001f600\U0001d518 \x00 end\n"


class Echo(agentgym.TextEnv):
    """Say what was said, and three odd turns make an episode."""

    horizon = 3

    def begin(self, task):
        return f"{ODD}{task.data['word']}"

    def act(self, action):
        return action + ODD

    def generate(self, rng, difficulty):
        return agentgym.Task(data={"word": int(rng.integers(10**9))})


def vector(kind, **options):
    return kind([Echo] * 3, **options)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_pass_every_text(kind):
    env = vector(kind)
    try:
        first, infos = env.reset(seed=[1, 2, 3])
        assert [text.startswith(ODD) for text in first] == [True] * 3 and len(set(first)) == 3
        assert first in env.observation_space
        words = ["", "ä" * 1000, "\U0001f600"]
        seen, *_, infos = env.step(words)
        assert list(seen) == [word + ODD for word in words]
        assert list(first) == [Echo().reset(seed=seed)[0] for seed in (1, 2, 3)]  # what was returned stays as it was
        assert list(infos["valid"]) == [True] * 3
    finally:
        env.close()


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_autoreset(kind, mode):
    env = vector(kind, autoreset_mode=mode)
    try:
        env.reset(seed=0)
        for _ in range(2):
            _, _, _, truncated, _ = env.step(["a", "b", "c"])
            assert not truncated.any()
        seen, _, terminated, truncated, infos = env.step(["a", "b", "c"])
        assert truncated.all() and not terminated.any()
        if mode is AutoresetMode.SAME_STEP:
            assert list(infos["final_obs"]) == ["a" + ODD, "b" + ODD, "c" + ODD]
        else:
            assert list(seen) == ["a" + ODD, "b" + ODD, "c" + ODD]
            seen, _, _, truncated, _ = env.step(["x", "x", "x"])
            assert not truncated.any()
        assert all(text.startswith(ODD) for text in seen) and len(set(seen)) == 3
    finally:
        env.close()


def test_without_a_copy_the_view_is_live_and_its_copies_are_not():
    env = vector(AsyncVectorEnv, copy=False)
    try:
        view, _ = env.reset(seed=[1, 2, 3])
        deep, shallow, sent = copy.deepcopy(view), copy.copy(view), pickle.loads(pickle.dumps(view))
        assert view == deep == shallow == sent and isinstance(deep, tuple)
        env.step(["a", "b", "c"])
        assert list(view) == ["a" + ODD, "b" + ODD, "c" + ODD] and view[1:] == ("b" + ODD, "c" + ODD) and view[-1][0] == "c"
        assert deep[0].startswith(ODD)
        with pytest.raises(IndexError):
            view[3]
    finally:
        env.close()


def test_gym_make_vec_takes_a_registered_environment():
    env = gym.make_vec("rlvr/GuessNumber-v0", num_envs=2, vectorization_mode="async")
    try:
        seen, _ = env.reset(seed=5)
        assert set(seen) == {"I'm thinking of a number from 1 to 100. Guess it."}
    finally:
        env.close()


@given(st.lists(st.text(st.characters(), max_size=30), min_size=1, max_size=4))
def test_shared_memory_holds_any_text(texts):
    space = Unicode(30)
    memory = create_shared_memory(space, n=len(texts))
    view = read_from_shared_memory(space, memory, n=len(texts))
    for index, text in enumerate(["z" * 30] * len(texts)):
        write_to_shared_memory(space, index, text, memory)
    for index, text in enumerate(texts):
        write_to_shared_memory(space, index, text, memory)
    assert list(view) == texts


def test_text_that_is_too_long_is_refused_not_cut():
    space = Unicode(5)
    with pytest.raises(ValueError, match="6 characters; the space holds 5"):
        write_to_shared_memory(space, 0, "abcdef", create_shared_memory(space))


@given(st.text(max_size=20))
def test_contains_any_text_that_fits(text):
    assert text in Unicode(20) and (text + "x" * 21) not in Unicode(20)


def test_contains_nothing_but_text():
    assert not any(value in Unicode() for value in (None, 3, b"a", np.str_))


def test_samples_are_reproducible_and_inside():
    one, two = Unicode(50, seed=3), Unicode(50, seed=3)
    drawn = [one.sample() for _ in range(20)]
    assert drawn == [two.sample() for _ in range(20)] and all(text in one for text in drawn) and len(set(drawn)) > 10
    assert Unicode(5) == Unicode(5) != Unicode(6)
