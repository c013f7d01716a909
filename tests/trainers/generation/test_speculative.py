"""Speculative rollouts in training runs: where there are drafts, what is recorded, and runs that are cut off."""

import asyncio
import json

import numpy as np
import pytest
import small_envs
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import curve, episodes, goes_on_to_the_last_digit, policy, small, taught

import agentgym
from agentgym.engines import Completion, Request, Sampling
from agentgym.errors import BadConfig
from agentgym.rollout.drafted import Drafting, Reply, key_of, packed, unpacked
from agentgym.trainers import train
from agentgym.trainers.config.train_config import STATE, newest_checkpoint

tokens = st.integers(0, 2**31 - 2)
logprobs = st.floats(-50, 0, width=32)


@given(st.lists(st.lists(st.tuples(tokens, logprobs, logprobs), max_size=5), max_size=4), st.integers(0, 3))
def test_replies_come_back_as_they_were_packed(content, known):
    replies = [
        Reply(
            key_of([number]),
            [token for token, _, _ in reply],
            [one for _, one, _ in reply],
            [([token + 1] * known, [other] * known) for token, _, other in reply] if known and any(content) else [],
        )
        for number, reply in enumerate(content)
    ]
    assert unpacked(packed(replies)) == replies


class Heard:
    """An engine that notes what it is asked and answers the same two tokens."""

    def __init__(self):
        self.drafts = []

    async def generate(self, prompt_ids, sampling, session, *, likeliest, draft=None):
        self.drafts.append(draft and list(draft.ids))
        return Completion([5, 6], [-0.5, -1.0], "stop", reused=1 if draft else 0)


def test_a_draft_is_offered_only_to_the_very_same_prompt_of_the_same_attempt():
    engine = Heard()
    earlier = {"g#0": [Reply(key_of([1, 2]), [7], [-1.0]), Reply(key_of([1, 2]), [8], [-1.0])]}
    drafting = Drafting(engine, earlier, 1.0, 0)

    async def ask(*args):
        for prompt, session in args:
            await drafting.complete(Request(prompt, Sampling(), session))

    # the observation after the first turn is another one: the prompt is, and there is no draft
    asyncio.run(ask(([1, 2], "g#0#agent"), ([1, 3], "g#0#agent"), ([1, 2], "g#1#agent"), ([1, 2], "g#0#agent")))
    assert engine.drafts == [[7], None, None, [8]]  # in circles: the second reply to the prompt
    asyncio.run(ask(([1, 2], "g#0#agent")))
    assert engine.drafts[-1] is None and (drafting.offered, drafting.accepted) == (2, 2)
    assert [reply.ids for reply in drafting.replies["g#0"]] == [[5, 6]] * 4


@agentgym.credit("told_apart", scope="batch", needs=("logprobs",))
def told_apart(groups, *, state):
    """Plain returns; notes how far the recorded log-probabilities are from the trainer's."""
    gaps = [
        np.abs(np.array(turn.logprobs) - turn.extra["logprobs"]).max()
        for group in groups
        for episode in group
        for turn in episode.turns
        if len(turn.logprobs)
    ]
    state["most"] = max(state.get("most", 0.0), *(float(gap) for gap in gaps))
    assert state["most"] < 1e-4, "recorded log-probabilities are those of the policy that trains"
    return [[[episode.reward] * len(episode.turns) for episode in group] for group in groups]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taught(tmp_path_factory.mktemp("model"))


def spec(folder, model, **changes):
    options = {"generation": "spec", "steps": 4, "lr": 1e-3, "minibatches": 1, "credit_options": {}, "credit": "rloo"}
    return small(folder, model, **{**options, **changes})


def test_tokens_are_kept_from_the_second_epoch_on_and_are_the_new_policys(tmp_path, model):
    train(spec(tmp_path / "run", model, credit=f"{__name__}:told_apart"))
    rows = [row for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    offered, accepted = ([row[name] for row in rows] for name in ("draft_tokens", "draft_tokens_kept"))
    assert offered[:2] == [0, 0] == accepted[:2], "the first epoch has nothing to build on"
    assert all(0.2 * all_ < count < all_ for all_, count in zip(offered[2:], accepted[2:], strict=True))
    versions = {turn["policy_version"] for e in episodes(tmp_path / "run") for turn in e["turns"]}
    assert len(versions) == 4


def test_lenience_keeps_more_and_without_it_nothing_is_kept(tmp_path, model):
    shares = {}
    for lenience in (0.0, 1.0, 1000.0):
        train(spec(tmp_path / f"{lenience}", model, generation_options={"lenience": lenience, "known": 0}))
        rows = [row for row in curve(tmp_path / f"{lenience}") if row.get("draft_tokens")]
        shares[lenience] = sum(row["draft_tokens_kept"] for row in rows) / sum(row["draft_tokens"] for row in rows)
    assert shares[0.0] == 0 < shares[1.0] < shares[1000.0] <= 1
    assert shares[1000.0] > 0.9, "what is left out stands behind a turn that went otherwise"


def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, model):
    goes_on_to_the_last_digit(tmp_path, lambda folder: spec(folder, model))


def test_only_the_newest_episodes_are_kept(tmp_path, model):
    config = spec(tmp_path / "run", model, generation_options={"capacity": 7})  # a step has nine
    train(config)
    stored = torch.load(newest_checkpoint(config.out) / STATE, weights_only=True)["stages"][0]["generation"]["kept"]
    last = [(e["task_id"], e["attempt"]) for e in episodes(tmp_path / "run")[-9:]]
    assert [tuple(json.loads(key)[1:]) for key in stored] == last[2:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "vllm"}, "generation 'spec' with engine 'vllm'"),
        ({"env": f"{small_envs.__name__}:small/Generated-v0"}, "needs tasks that repeat"),
        ({"generation_options": {"lenience": -1.0}}, "lenience of generation 'spec' is -1.0"),
        ({"generation_options": {"leniense": 1.0}}, "lenience"),
        ({"generation": "speck"}, "spec"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(tmp_path, changes, message):
    folder = policy(tmp_path / "policy", "small/Generated-v0" if "env" in changes else "small/File-v0")
    with pytest.raises(Exception, match=message) as error_info:
        train(spec(tmp_path / "run", folder, **changes))
    assert isinstance(error_info.value, BadConfig) or "Unknown" in type(error_info.value).__name__
    assert not (tmp_path / "run").exists()
