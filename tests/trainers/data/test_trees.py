"""Branches as episodes of a group: what they share, that it is trained once, what is played and counted."""

import asyncio
from collections import Counter

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from any_tree import any_tree
from guesses import Few, made
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_rows import tiny_model
from trees import branch, tree, whole

import agentgym
from agentgym.engines.scripted import ScriptedEngine
from agentgym.episodes.episode import Episode, Group, groups
from agentgym.errors import BadConfig, BadData
from agentgym.rollout.draw import Draw
from agentgym.trainers import Branch, TrainConfig
from agentgym.trainers.config.train_config import defaults
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data import prefixes
from agentgym.trainers.data.packing import LOSS_AGGREGATIONS, count, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.data.trees import copy_extra, forks, holders, keys, weigh_shared_turns
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.needs.interface import place
from agentgym.trainers.run.metrics import branched, played
from agentgym.trainers.run.preflight import check_run


def test_who_played_a_turn_by_hand():
    first, second, third, fourth, alone = tree()
    assert (second.forks, third.forks, fourth.forks) == ([[0, 2, 100]], [[0, 1, 100]], [[0, 1, 100], [2, 2, 102]])
    assert [fourth.origin_of(n) for n in range(3)] == [0, 2, 3]
    assert [e.shared for e in (first, second, third, fourth, alone)] == [0, 2, 1, 2, 0]
    assert ["".join(t.action for t in e.turns) for e in (second, third, fourth)] == ["abx", "ayz", "ayw"]
    assert [e.reward for e in tree()] == [1, 0, 1, 0, 0]
    assert [e.sampled for e in (first, second, fourth)] == [6, 2, 2]
    turn_holders = holders(tree().episodes)
    assert (
        turn_holders[0, 0] == [0, 1, 2, 3]
        and turn_holders[0, 1] == [0, 1]
        and turn_holders[2, 1] == [2, 3]
        and turn_holders[4, 0] == [4]
    )
    assert keys(tree().episodes)[3] == [(0, 0), (2, 1), (3, 2)]
    assert forks(tree().episodes) == [[(0, 0), (4, 0)], [(0, 1), (2, 1)], [(0, 2), (1, 2)], [(2, 2), (3, 2)]]
    early = branch(5, fourth, 1, "v", 0.0)  # from a turn that it shares: of the one that played it
    assert early.forks == [[0, 1, 100]]


def test_a_branch_is_paid_what_its_shared_turns_earned_and_changes_nothing_there():
    parent = whole(0, "ab", 1.0)
    parent.turns[0].reward, parent.turns[0].rewards = 0.25, {"tip": 0.25}
    second = branch(1, parent, 1, "c", 0.5)
    assert second.reward == 0.75
    second.turns[0].rewards["more"] = 1.0
    second.turns[0].extra["x"] = 1
    assert parent.turns[0].rewards == {"tip": 0.25} and parent.turns[0].extra == {}


def test_forks_are_in_the_file_and_strange_ones_are_refused():
    for episode in tree():
        again = Episode.from_json(episode.to_json())
        assert again == episode and again.forks == episode.forks
    line = tree()[1].to_json()
    for bad in ('"forks": [[0, 2]]', '"forks": [[0, 2, "1"]]', '"forks": 3', '"forks": [[0, true, 1]]'):
        with pytest.raises(BadData, match="forks must be lists of three integers"):
            Episode.from_json(line.replace('"forks": [[0, 2, 100]]', bad))


def trained(group):
    return [[turn.extra.get("train", True) for turn in episode.turns] for episode in group]


def test_a_shared_turn_is_trained_in_the_first_that_holds_it():
    (group,) = weigh_shared_turns([tree()], "once")
    assert trained(group) == [[True] * 3, [False, False, True], [False, True, True], [False, False, True], [True]]
    left = tree()
    (group,) = weigh_shared_turns([Group("t", "agent", left.episodes[1:])], "once")  # a selection took the first one away
    assert trained(group) == [[True, True, True], [False, True, True], [False, False, True], [True]]
    (group,) = weigh_shared_turns([tree()], "each")
    weights = [[turn.extra.get("weight", 1) for turn in episode.turns] for episode in group]
    assert weights == [[1 / 4, 1 / 2, 1], [1 / 4, 1 / 2, 1], [1 / 4, 1 / 2, 1], [1 / 4, 1 / 2, 1], [1]]


def test_copies_know_what_was_computed_for_the_turn_that_is_trained():
    (group,) = weigh_shared_turns([tree()], "once")
    rows = build(group.episodes)
    values = [np.arange(len(row), dtype=np.float32) for row in rows]
    place(group.episodes, rows, ("entropy",), {"entropy": values})
    assert "entropy" not in group[1].turns[0].extra
    copy_extra([group], ("entropy",))
    assert all(e.turns[0].extra["entropy"].tolist() == [1.0, 2.0] for e in group)
    assert group[3].turns[1].extra["entropy"].tolist() == group[2].turns[1].extra["entropy"].tolist()


@settings(max_examples=60, deadline=None)
@given(any_tree(), st.sampled_from(["once", "each"]), st.sampled_from(LOSS_AGGREGATIONS), st.booleans())
def test_weights_over_all_branches_count_a_shared_prefix_once(group, shared, aggregation, merge):
    turn_holders = holders(group.episodes)
    turns = [group[places[0]].turns[key[1]] for key, places in turn_holders.items()]
    assert len({turn.action for turn in turns}) == len(turns)  # a key is a turn that was played, and no other
    assert sum(e.sampled for e in group) == sum(len(turn.output_ids) for turn in turns)
    (group,) = weigh_shared_turns([group], shared)
    rows = build(group.episodes, merge=merge)
    constant = 3.0 if aggregation == "constant" else None
    weights = token_weights(rows, aggregation, constant=constant)
    total = Counter()
    for row, weight in zip(rows, weights, strict=True):
        for number in np.unique(row.turns[row.mask]):
            total[group[row.episode].turns[number].action] += float(weight[row.mask & (row.turns == number)].sum())
    played_tokens = {t.action: len(t.output_ids) for e in group for t in e.turns}
    every = sum(played_tokens.values())
    if aggregation == "token":
        assert count(rows, "token") == pytest.approx(every)
        assert total == pytest.approx({name: size / every for name, size in played_tokens.items()}, rel=1e-5)
    elif aggregation == "turn":
        assert total == pytest.approx(dict.fromkeys(played_tokens, 1 / len(played_tokens)), rel=1e-5)
    elif aggregation == "episode":
        assert sum(total.values()) == pytest.approx(1, rel=1e-5)
    else:  # every token alike, whoever holds it
        scale = len(group) * (constant or 1)
        assert total == pytest.approx({name: size / scale for name, size in played_tokens.items()}, rel=1e-5)


@settings(max_examples=30, deadline=None)
@given(any_tree())
def test_of_any_tree_every_turn_is_trained_by_one_and_nobody_else(group):
    (group,) = weigh_shared_turns([group], "once")
    times = Counter(turn.action for e in group for turn in e.turns if turn.extra.get("train") is not False)
    assert set(times.values()) == {1} and len(times) == len({turn.action for e in group for turn in e.turns})


def long_tree():
    """Groups with prefixes that are long enough to be shared in an update."""
    rng, found = np.random.default_rng(0), []
    for task in range(3):
        episodes = []
        for attempt in range(5):
            names = [f"{attempt}.{n}" for n in range(3)]
            tokens = rng.integers(0, 60, 8).tolist()
            options = {"tokens": tokens, "logprobs": (-rng.random(8)).tolist()}
            reward = float(attempt % 2)
            if attempt % 2:
                at = 1 + attempt % 2
                episodes.append(branch(attempt, episodes[0], at, names, reward, **options))
            else:
                episodes.append(whole(attempt, names, reward, **options))
        for episode in episodes:
            episode.group_id = episode.task_id = f"t{task}"
        found += episodes
    return groups(found)


def moved(config, shared):
    """Take a step on the long trees; return the metrics and how the weights moved."""
    model = tiny_model()
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    scorer = Scorer(model, 0.7, shared=config.share_prefixes)
    learner = TrainedModel(Accelerator(cpu=True), scorer, [torch.optim.SGD(model.parameters(), lr=1.0)])
    metrics = reinforce(learner, weigh_shared_turns(long_tree(), shared), resolve(config.credit), config, 0)
    return metrics, torch.cat([p.detach().flatten() for p in model.parameters()]) - before


@pytest.mark.parametrize("shared", ["once", "each"])
@pytest.mark.parametrize("credit", ["arpo", "treerl"])
def test_gradients_are_the_same_with_and_without_prefix_sharing(monkeypatch, shared, credit):
    monkeypatch.setattr(prefixes, "SHORTEST", 4)
    monkeypatch.setattr(prefixes, "PAYS", 0.01)
    results = []
    for share in (False, True):
        config = TrainConfig(credit=credit, minibatches=1, batch_tokens=300, share_prefixes=share)
        results.append(moved(config, shared))
    (row_by_row, expected), (together, found) = results
    assert together.pop("prefix_tokens_shared") > 0.05
    assert float((found - expected).norm()) < 1e-5 * float(expected.norm())
    assert together == pytest.approx(row_by_row, rel=1e-4, abs=1e-6)


def test_hard_and_soft_credit_of_shared_turns_have_the_same_gradient_where_nothing_is_clipped():
    wide = {"minibatches": 1, "batch_tokens": 300, "clip_low": 1.0, "clip_high": 1e3}
    hard = moved(TrainConfig(credit="arpo", **wide), "once")[1]
    soft = moved(TrainConfig(credit="grpo", **wide), "each")[1]
    assert float((hard - soft).norm()) < 1e-4 * float(hard.norm())


# Playing


class Counting(ScriptedEngine):
    """Guesses numbers that depend on session and turn, and counts what it sampled."""

    def __init__(self):
        super().__init__(lambda prompt, turn: "")
        self.sampled = 0

    async def complete(self, request):
        attempt, place = int(request.session.split("#")[1]), self._turns.get(request.session, 0)
        self._replies = lambda prompt, turn: str(1 + 10 * attempt + place)
        completion = await super().complete(request)
        self.sampled += len(completion.ids)
        return completion


@agentgym.branching("by_hand")
def by_hand(growth, *, turn: int = 1):
    """One whole episode, a branch of it, a branch of that, and from a shared turn."""
    if growth.rounds == 0:
        return [Branch(1)]
    return {1: [Branch(1, 0, turn)], 2: [Branch(1, 1, 2)], 3: [Branch(2, 2, 1)]}.get(growth.rounds, [])


class Dice(Few):
    """Tells a number of chance after every guess."""

    def begin(self, task):
        self.number = 0
        return super().begin(task)

    def act(self, action):
        self.number = int(self.np_random.integers(10**6))
        return agentgym.Outcome(f"Rolled {self.number}.")

    def state(self):
        return self.number


agentgym.register("me/Dice-v0", Dice, horizon=3)


def grown(branching="by_hand", **changes):
    run = made(engine=Counting(), branching=branching, **{"group_size": 6, **changes})

    async def play():
        name = next(iter(run.rollouts.envs))
        draws = [Draw(run.rollouts.env(name).numbered(n), env=name) for n in (0, 3)]
        return await run.rollouts.collect(draws, 0)

    try:
        return run, asyncio.run(play())
    finally:
        run.rollouts.close()


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"agent": "window"},
        pytest.param({"env": "me/InWorkers-v0", "workers": 1}, marks=pytest.mark.long),
    ],
    ids=["chat", "window", "worker"],
)
def test_branches_of_branches_are_played(way):
    run, episodes = grown(**way)
    assert [e.attempt for e in episodes] == [0, 1, 2, 3, 4, 5] * 2 and not any(e.fault for e in episodes)
    assert run.rollouts.engine.sampled == sum(e.sampled for e in episodes)  # what is counted is what was sampled
    for group in (episodes[:6], episodes[6:]):
        first, second, third, fourth, fifth, last = group
        seeds = [e.seed for e in group]
        assert len(set(seeds)) == 6 and len({e.group_id for e in group}) == 1
        assert second.forks == [[0, 1, seeds[0]]] and third.forks == [[0, 1, seeds[0]], [1, 2, seeds[1]]]
        assert fourth.forks == fifth.forks == [[0, 1, seeds[0]]] and last.forks == first.forks == []
        actions = [[int(turn.action) for turn in e.turns] for e in group]
        # a reply names its attempt, and its place among the replies of that attempt
        assert actions == [[1, 2, 3], [1, 11, 12], [1, 11, 21], [1, 31, 32], [1, 41, 42], [51, 52, 53]]
        for episode in (second, third):
            parent = group[episode.forks[-1][0]]
            at = episode.shared
            assert list(episode.turns[at].prompt_ids) == list(parent.turns[at].prompt_ids)
            assert episode.turns[at].observation == parent.turns[at].observation
            assert episode.turns[at].state_key == parent.turns[at].state_key
    numbers = branched(episodes, run.rollouts.grower.take_lost())
    assert numbers["branched_episodes"] == 8 and numbers["branched_lost"] == 0
    assert numbers["branched_turns_shared"] == 2 * (1 + 2 + 1 + 1)
    assert numbers["branched_tokens"] == sum(e.sampled for e in episodes if e.forks)
    assert played(episodes)["success_train"].number == 4  # of whole episodes


def test_a_branch_can_be_gone_through_again_chance_included():
    """Its chance is the parent's up to the fork, and its own from there on."""
    run, episodes = grown(env="me/Dice-v0")
    rolls = [[turn.observation for turn in e.turns] for e in episodes[:6]]
    assert rolls[1][:2] == rolls[0][:2] and rolls[1][2] != rolls[0][2]  # the same up to the fork, another roll after it
    assert rolls[2][:3] == rolls[1][:3]
    name = next(iter(run.rollouts.envs))

    async def again():
        branch_points = [(run.task(e), e, range(len(e.turns))) for e in episodes]
        return await run.rollouts.pool.starts(run.rollouts.agents(1.0)[name], name, branch_points)

    starts = asyncio.run(again())
    assert [sorted(points) for points in starts] == [[0, 1, 2]] * 12


class Broken(Counting):
    """Fails in the first attempt at each task."""

    async def complete(self, request):
        if request.session.split("#")[1] == "0":
            raise agentgym.Fault("broken", reason="engine")
        return await super().complete(request)


@pytest.mark.parametrize("branching", ["turns", "arpo", "aepo", "treerl", "pairs"])
def test_a_round_of_infrastructure_errors_is_asked_for_again(branching, monkeypatch):
    monkeypatch.setattr(f"{__name__}.Counting", Broken)
    options = {"turns": {"share": 0.1}, "arpo": {"share": 0.1, "base": 1}, "aepo": {"base": 1, "sensitivity": 0}}
    size = 2 if branching == "pairs" else 4
    _, episodes = grown(branching, branching_options=options.get(branching, {}), group_size=size)
    for group in (episodes[:size], episodes[size:]):
        assert [e.fault for e in group] == [True, *[False] * (size - 1)]
        if branching == "aepo":  # 4 * sigmoid(0): two from the beginning, as without the error
            assert [bool(e.forks) for e in group] == [False, False, False, True]
        elif branching != "pairs":
            assert all(e.forks for e in group[2:])


def test_turns_that_cannot_be_reached_again_are_lost_and_the_group_is_complete_all_the_same():
    run, episodes = grown(env="me/Forgetful-v0")
    assert len(episodes) == 12 and not any(e.forks for e in episodes)
    assert run.rollouts.grower.take_lost() == 2 and run.rollouts.grower.take_lost() == 0


def test_what_cannot_be_asked_for_is_refused():
    with pytest.raises(BadConfig, match=r"asked for turn 7 of attempt 0; expected an attempt of \[0\] and one"):
        grown(branching_options={"turn": 7})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"branching": "arpo", "agent": "json:loads"}, "branching 'arpo': agent 'json:loads' brings its own environment"),
        ({"branching": "arpo", "env": "rlvr/TicTacToe-v0"}, "has the roles X, O"),
        ({"branching": "arpo", "sampler": "starts"}, "sampler 'starts' with branching 'arpo': its episodes begin inside"),
        ({"branching": "arp"}, "arp"),
        ({"branching": "arpo", "branching_options": {"base": 2}}, "base of branching 'arpo' is 2.*from 0 to 1"),
        ({"branching_options": {"base": 0.5}}, "branching.base has no effect without --branching"),
        ({"shared_turns": "each"}, "shared_turns is 'each' and has no effect without"),
        ({"branching": "turns", "branching_options": {"at": "everywhere"}}, "at of branching 'turns' is 'everywhere'"),
        ({"branching": f"{__name__}:with_state"}, "has a parameter 'state'"),
    ],
)
def test_what_cannot_branch_is_refused_before_anything_is_loaded(tmp_path, changes, message):
    config = TrainConfig(**{"env": "rlvr/GuessNumber-v0", "out": str(tmp_path / "run"), **changes})
    with pytest.raises((BadConfig, agentgym.UnknownName), match=message):
        check_run(config)


@agentgym.branching("with_state")
def with_state(growth, *, state):
    return []


def test_options_are_flags_and_a_table(tmp_path):
    from agentgym.cli.flags import read_flags
    from agentgym.trainers.config.recipe_files import read_config, to_toml

    words = ["--branching", "arpo", "--branching.base", "0.25", "--shared-turns", "each"]
    config = read_flags(TrainConfig, words, command="train", default=defaults())
    assert (config.branching, config.branching_options, config.shared_turns) == ("arpo", {"base": 0.25}, "each")
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config))
    assert "[branching]" in path.read_text() and read_config(path) == config
