"""Samplers whose tasks the policy proposes: what is paid by hand, what fills a step, and runs that are resumed."""

import asyncio
import signal

import proposing_envs
import pytest
from forked import Program
from proposing_envs import Proposer, Solver
from small_runs import TINY, curve, episodes, policy, small
from whole_runs import CHILD

from agentgym import BadConfig, Task
from agentgym.episodes.episode import Episode, Turn
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.model.policy import init_policy
from agentgym.trainers.samplers.interface import GroupOutcome, TaskSource
from agentgym.trainers.samplers.proposals import AbsoluteZero, SearchSelfPlay


class FakeRollouts:
    """Ends the episodes of each group as it is told: what each attempt proposes, None for nothing valid, or `fault`."""

    def __init__(self, *replies):
        self.proposals = list(replies)
        self.draws = []

    def group_id(self, draw, prefix):
        return f"{prefix}{draw.task.id}"

    async def collect(self, draws, step):
        played = []
        for draw in draws:
            self.draws.append(draw)
            for attempt, secret in enumerate(self.proposals.pop(0)):
                end = f'{{"secret": {secret}, "limit": 4}}'
                episode = Episode("p", draw.task.id, self.group_id(draw, f"{step + 1}/"), 0, attempt, [Turn("", reward=1.0)])
                episode.success, episode.reason = secret is not None, "crash" if secret == "fault" else "success"
                episode.final_observation = end
                played.append(episode)
        return played


class FakeRun:
    def __init__(self, *replies, rank=0, processes=1):
        self.rollouts, self.rank, self.processes = FakeRollouts(*replies), rank, processes
        self.others = []

    def share(self, items):
        return list(items[self.rank :: self.processes])

    def gather(self, items):
        return [*items, *self.others]


def made(kind=AbsoluteZero, **options):
    return kind([TaskSource(Proposer(), 0, name="p"), TaskSource(Solver(), 0, name="s")], **options)


def seen(task_id, *successes):
    return GroupOutcome("s", task_id, 0, tuple(map(float, successes)), successes)


def paid(sampler, *groups):
    return {(e.task_id, e.attempt): (e.reward, e.turns[-1].rewards) for e in sampler.completed(groups)}


def test_what_is_worth_proposing():
    zero, search = AbsoluteZero.worth, SearchSelfPlay.worth
    assert [zero(None, rate) for rate in (0.0, 0.25, 0.5, 1.0)] == [0.0, 0.75, 0.5, 0.0]
    assert [search(None, rate) for rate in (0.0, 0.25, 0.5, 1.0)] == [1.0, 0.75, 0.5, 0.0]


def test_proposals_become_tasks_and_are_paid_by_how_they_are_solved():
    sampler, run = made(attempts=4, invalid=-0.5), FakeRun([3, None, 1, 3])
    draws = asyncio.run(sampler.draw(0, 5, run=run))
    assert [(d.env, d.task.id, d.task.data.get("secret")) for d in draws[:2]] == [
        ("s", "proposed/0/0", 3),
        ("s", "proposed/0/1", 1),
    ]
    assert len(draws) == 4  # with the group of the proposer, 5
    assert [d.task.id for d in draws[2:]] == ["train/0/0", "train/0/1"]  # own tasks fill the step
    assert sampler.task("proposed/0/1").data["secret"] == 1 and sampler.task("train/0/0") is None
    assert sampler.task("propose/0/0") is run.rollouts.draws[0].task
    rewards_paid = paid(sampler, seen("proposed/0/0", True, False, False, False), seen("proposed/0/1", True, True))
    assert rewards_paid == {
        ("propose/0/0", 0): (0.75, {"proposal": 0.75}),
        ("propose/0/0", 1): (-0.5, {"proposal": -0.5}),
        ("propose/0/0", 2): (0.0, {"proposal": 0.0}),  # everybody solves it
        ("propose/0/0", 3): (-0.5, {"proposal": -0.5}),  # the first one's copy
    }
    assert sampler.completed([]) == []  # they are trained once


def test_repetition_is_not_paid_in_a_later_step_either():
    sampler = made(attempts=2)
    asyncio.run(sampler.draw(0, 3, run=FakeRun([2, None])))
    sampler.completed([seen("proposed/0/0", True, False)])
    draws = asyncio.run(sampler.draw(1, 3, run=FakeRun([2, 4])))
    assert [d.task.id for d in draws] == ["proposed/1/1", "train/0/1"]
    assert next(iter(paid(sampler, seen("proposed/1/1", True, False)).values())) == (0.0, {"proposal": 0.0})


def test_what_was_not_played_or_cannot_be_judged_is_not_trained():
    sampler = made(attempts=4)
    draws = asyncio.run(sampler.draw(0, 3, run=FakeRun([1, 2, 3, "fault"])))
    assert [d.task.id for d in draws] == ["proposed/0/0", "proposed/0/1"]  # there is room for two
    rewards_paid = paid(sampler, seen("proposed/0/0", False, True), seen("proposed/0/1"))  # faults alone
    assert list(rewards_paid) == [("propose/0/0", 0)]


class GatedProposer(Proposer):
    """Has its proposals tried."""

    def gate(self, data):
        return Task("try", dict(data))


class Checks(FakeRollouts):
    """Ends the checks of proposals as it is told: right, wrong, or an infrastructure error."""

    async def collect(self, draws, step):
        if not draws or not draws[0].task.id.startswith("check/"):
            return await super().collect(draws, step)
        ends = dict(zip((draw.task.id for draw in draws), self.proposals.pop(0), strict=True))
        return [
            Episode(
                "p", id, f"{step + 1}/{id}", 0, 0, [Turn("")], success=end, reason="timeout" if end is None else "success"
            )
            for id, end in ends.items()
        ]


def test_a_check_that_ends_in_an_infrastructure_error_is_no_failure_of_the_proposal():
    sampler = SearchSelfPlay([TaskSource(GatedProposer(), 0, name="p"), TaskSource(Solver(), 0, name="s")], attempts=3)
    sampler.invalid, run = -0.5, FakeRun()
    run.rollouts = Checks([1, 2, 3], [True, None, False], [2, 2, 4], [True, True])
    draws = asyncio.run(sampler.draw(0, 5, run=run))
    assert [d.task.id for d in draws] == ["proposed/0/0", "train/0/0", "train/0/1", "train/0/2"]
    rewards_paid = paid(sampler, seen("proposed/0/0", True, False))
    assert {attempt: amount for (_, attempt), (amount, _) in rewards_paid.items()} == {0: 0.5, 2: -0.5}  # 1 is not trained
    draws = asyncio.run(sampler.draw(1, 5, run=run))  # and it may be proposed again
    assert [d.task.data["secret"] for d in draws[:2]] == [2, 4] and draws[1].task.id == "proposed/1/2"


def test_tasks_of_all_rounds_of_a_step_can_be_found():
    sampler, run = made(attempts=2), FakeRun([1, 2], [3, 4], [1, 2])
    for number in (3, 2):  # the second round fills what the first left out
        asyncio.run(sampler.draw(0, number, run=run))
    assert [sampler.task(f"proposed/0/{n}").data["secret"] for n in range(3)] == [1, 2, 3]
    assert sampler.task("propose/0/0") and sampler.task("propose/0/1")
    asyncio.run(sampler.draw(1, 3, run=run))
    assert sampler.task("proposed/0/0") is None, "they are those of one step"


@pytest.mark.parametrize("proposer_replies", [[None] * 4, ["fault"] * 4, [1, 1, 1, 1]])
def test_no_proposer_stalls_a_step(proposer_replies):
    sampler = made(attempts=4)
    for step in range(3):
        draws = asyncio.run(sampler.draw(step, 4, run=FakeRun(proposer_replies)))
        assert len(draws) == 3 and len({d.task.id for d in draws}) == 3
        sampler.completed([seen(d.task.id, True, False) for d in draws])
    assert sampler.places["solver"] >= 8
    assert asyncio.run(sampler.draw(3, 1, run=FakeRun())) != []  # a round with room for one group proposes nothing


def test_every_process_draws_the_same():
    first, second = made(proposers=2, attempts=2), made(proposers=2, attempts=2)
    one, two = FakeRun([1, None], rank=0, processes=2), FakeRun([2, 3], rank=1, processes=2)
    one.others, two.others = (
        [(1, 0, {"secret": 2, "limit": 4}), (1, 1, {"secret": 3, "limit": 4})],
        [(0, 0, {"secret": 1, "limit": 4}), (0, 1, None)],
    )
    draws = [asyncio.run(sampler.draw(0, 6, run=run)) for sampler, run in ((first, one), (second, two))]
    assert [(d.task.id, d.task.data) for d in draws[0]] == [(d.task.id, d.task.data) for d in draws[1]]
    assert first.state_dict() == second.state_dict()
    ends = [seen(f"proposed/0/{n}", True, False) for n in range(3)]
    assert [len(sampler.completed(ends)) for sampler in (first, second)] == [2, 2]  # each its own proposals


def test_the_state_goes_on():
    sampler, again = made(attempts=2), made(attempts=2)
    asyncio.run(sampler.draw(0, 3, run=FakeRun([1, 2])))
    again.load_state_dict(sampler.state_dict())
    draws = [asyncio.run(s.draw(1, 4, run=FakeRun([2, 3]))) for s in (sampler, again)]
    assert [d.task for d in draws[0]] == [d.task for d in draws[1]]


def pair(**changes):
    module = proposing_envs.__name__
    envs = tuple(EnvSpec(f"{module}:small/{name}-v0", label=name.lower()) for name in ("Proposer", "Solver"))
    return {
        "envs": envs,
        "sampler": "absolute_zero",
        "select": "keep",
        "credit": "task_relative",
        "credit_options": {},
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "search_self_play"}, "cannot try them"),
        ({"async_level": 1}, "made in the step that plays them"),
        ({"select": "guide"}, "what the selection plays at a task of proposing has no solvers"),
        ({"select": "demonstrations"}, "what the selection plays at a task of proposing has no solvers"),
        ({"credit": "branch_td"}, "nobody solves those of continuations"),
        ({"sampler_options": {"attempts": 1}}, "attempts of sampler 'absolute_zero'"),
        ({"envs": pair()["envs"][1:]}, "0 environments that propose and 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(tmp_path, changes, message):
    with pytest.raises(BadConfig, match=message):
        train(small(tmp_path / "run", "init", **pair(**changes)))


@pytest.mark.long
def test_a_run_of_proposals_that_is_killed_goes_on_to_the_last_digit(tmp_path):
    names = [spec.id for spec in pair()["envs"]]
    model = policy(tmp_path / "policy", *names)
    options = pair(steps=4, tasks_per_step=4, horizon=(2,), sft_episodes=320, sft_batch=8)
    train(small(tmp_path / "whole", model, **options))
    config = tmp_path / "config.toml"
    config.write_text(to_toml(small(tmp_path / "run", model, **options)))
    assert Program(CHILD, config, "step", 2).wait() == -signal.SIGKILL
    resume(tmp_path / "run")
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "run") == episodes(tmp_path / "whole")
    played = episodes(tmp_path / "whole")
    proposals = [e for e in played if e["task_id"].startswith("propose/")]
    solved = [e for e in played if e["task_id"].startswith("proposed/")]
    assert proposals and solved and {len(e["turns"]) for e in proposals} == {1}
    assert all(list(e["turns"][-1]["rewards"]) == ["proposal"] for e in proposals)
    assert any(e["reward"] > 0 for e in proposals)


REAL = {
    "absolute_zero": (
        ("agentgym.envs.code.proposer:rlvr/CodeProposer-v0", {"types": ("deduction",)}),
        ("agentgym.envs.code.puzzles:rlvr/CodePuzzle-v0", {"types": ("deduction",)}),
    ),
    "search_self_play": (
        ("agentgym.envs.search.proposer:rlvr/SearchProposer-v0", {}),
        ("rlvr/Search-v0", {}),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", REAL)
def test_runs_with_real_sandboxes_and_searches_end_and_are_resumed(tmp_path, name):
    if name == "absolute_zero" and missing():
        pytest.skip(missing())
    (first, options), *others = REAL[name]
    model = init_policy(first, tmp_path / "policy", size=TINY, episodes=4, beside=others, env_options=options)
    envs = tuple(EnvSpec(id, options=options, label=id.rpartition("/")[2]) for id, options in REAL[name])
    run = small(
        tmp_path / "run", str(model), envs=envs, sampler=name, credit="task_relative", credit_options={}, steps=1,
        tasks_per_step=3, group_size=2, horizon=(2,), turn_tokens=12, sampler_options={"attempts": 2},
    )  # fmt: skip
    train(run)
    resume(tmp_path / "run", steps=2)
    rows = curve(tmp_path / "run")
    assert [row["step"] for row in rows if "loss" in row] == [1, 2]
    played = {e["task_id"].split("/")[0] for e in episodes(tmp_path / "run")}
    assert {"propose", "train"} <= played
