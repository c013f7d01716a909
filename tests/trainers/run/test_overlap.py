"""Later steps played beside an update: how old their tokens are, in which order they come, and what a kill costs."""

import asyncio
import copy
import math
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
import small_envs
import tiny_rows
import torch
from fresh_run import fresh
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import curve, episodes, policy, small, taught

import agentgym
from agentgym.agents import ChatAgent
from agentgym.core.tasks import Task
from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import groups
from agentgym.errors import BadConfig
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.draw import Draw
from agentgym.rollout.overlap import Pace, StepScheduler
from agentgym.rollout.play import Start
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.rollout.workers import Workers
from agentgym.trainers import TrainConfig, loop, resume, train
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.interface import Learner, learner
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.learners.updates import UpdateResult
from agentgym.trainers.losses.interface import check
from agentgym.trainers.model.policy import load_policy
from agentgym.trainers.run import training
from agentgym.trainers.run.preflight import check_run
from agentgym.trainers.samplers.interface import TaskSource
from agentgym.trainers.weights.sync import weight_sync

UNEVEN = f"{small_envs.__name__}:small/Uneven-v0"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def solves(tmp_path_factory):
    """A policy that solves some of its tasks, and so has something to learn from."""
    return taught(tmp_path_factory.mktemp("taught"))


def uneven(out, model, **changes):
    """A run of four steps of nine episodes, with a warm start of two updates, so that step s trains version 2 + s."""
    options = {"env": UNEVEN, "sft_episodes": 16, "steps": 4, "lr": 0.02, "turn_tokens": 3, "concurrency": 6}
    return small(out, model, **{**options, **changes})


def by_step(folder):
    """Return the training episodes of each step."""
    found = {}
    for episode in episodes(folder):
        found.setdefault(int(episode["group_id"].split("/")[0]), []).append(episode)
    return found


@pytest.mark.parametrize("level", [1, 3])
def test_no_token_is_older_than_the_level_and_groups_come_whole_and_in_order(level, model, tmp_path):
    summary = train(uneven(tmp_path / "run", model, async_level=level))
    played = by_step(tmp_path / "run")
    assert summary["episodes"] == 16 + 4 * 9 and list(played) == [1, 2, 3, 4]
    for step, those in played.items():
        assert [episode["attempt"] for episode in those] == [0, 1, 2] * 3
        for episode in those:
            versions = [turn["policy_version"] for turn in episode["turns"]]
            assert versions == sorted(versions)
            assert all(step + 1 - level <= version <= step + 1 for version in versions)
    rows = [row for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert all(0 <= row["versions_behind"] <= row["versions_behind_most"] <= min(level, row["step"] - 1) for row in rows)
    assert rows[-1]["versions_behind_most"] > 0
    tasks = [draw.task.id for draw in TaskSource(small_envs.Small(), seed=0).at(range(12), "train")]
    assert [episode["task_id"] for those in played.values() for episode in those[::3]] == tasks


def by_hand(config):
    """Take the steps of a run one after another, with nothing that could play ahead; return the weights at its end."""
    sitting = loop.Loop.fresh(check_run(config))
    run = sitting.run

    async def steps():
        await run.learner.publish(0)
        for step in range(config.steps):
            played = await run.rollouts.collect(await run.draw(step, config.tasks_per_step, set()), step)
            loop.learn(run, groups(played), step)
            await run.learner.publish(step + 1)
            sitting.record.keep(played)

    with closing(sitting.record), closing(run):
        asyncio.run(steps())
        return copy.deepcopy(run.learner.model.state_dict())


class InTurn(StepScheduler):
    """Plays each step when it is its turn, whatever the level."""

    async def take(self, step):
        plan = await self._begun(step)
        return plan.draws, await plan.playing


@pytest.mark.long
@pytest.mark.parametrize(("level", "ahead"), [(0, StepScheduler), (1, InTurn)])
def test_a_run_that_plays_nothing_ahead_is_the_serial_run_to_the_last_digit(level, ahead, solves, tmp_path, monkeypatch):
    """Level 0; and a higher one, with its copy of the weights and its update in a thread, where age is all that differs."""
    expected = by_hand(small(tmp_path / "hand", solves))
    monkeypatch.setattr(training, "StepScheduler", ahead)
    train(small(tmp_path / "run", solves, async_level=level))
    assert sum(row["grad_norm"] > 0 for row in curve(tmp_path / "run")) > 1
    assert episodes(tmp_path / "run") == episodes(tmp_path / "hand")
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    found = load_policy(newest)[0].state_dict()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)


def test_a_run_that_is_killed_plays_again_what_was_in_flight(model, tmp_path):
    class Killed(RuntimeError):
        pass

    def kill(kind, numbers):
        if kind == "step" and numbers["step"] == 3:  # the checkpoint is of step 2; steps 3 and 4 are in flight
            raise Killed

    with pytest.raises(Killed):
        train(uneven(tmp_path / "run", model, async_level=2, steps=6, checkpoint_every=2), kill)
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert list(torch.load(newest / "trainer.pt", weights_only=True)["ahead"]) == [2, 3]
    summary = resume(tmp_path / "run")
    played = by_step(tmp_path / "run")
    assert summary["episodes"] == 16 + 6 * 9 and {step: len(those) for step, those in played.items()} == dict.fromkeys(
        range(1, 7), 9
    )
    draws = TaskSource(small_envs.Small(), seed=0).at(range(18), "train")
    assert [episode["task_id"] for those in played.values() for episode in those[::3]] == [d.task.id for d in draws]
    for step, those in played.items():
        assert all(step - 1 <= turn["policy_version"] <= step + 1 for episode in those for turn in episode["turns"])


def test_ctrl_c_in_a_step_loses_nothing(model, tmp_path):
    def stop(kind, numbers):
        if kind == "progress" and numbers["what"].startswith("step 3, updating"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(uneven(tmp_path / "run", model, async_level=1), stop)
    summary = resume(tmp_path / "run")
    assert summary["episodes"] == 16 + 4 * 9
    assert {step: len(those) for step, those in by_step(tmp_path / "run").items()} == dict.fromkeys(range(1, 5), 9)


class Swapping(small_envs.Small):
    """Tells a test of each of its steps."""

    on_step = staticmethod(lambda: None)

    def act(self, action):
        type(self).on_step()
        return super().act(action)


def test_weights_change_between_two_turns_and_each_turn_has_the_numbers_of_its_version(model):
    trained, tokenizer = load_policy(model)
    before = copy.deepcopy(trained)
    engine = HFEngine(copy.deepcopy(trained), tokenizer, slots=4)
    sync = weight_sync(trained, engine, copied=True)
    pushes, steps = [], []

    def on_step():
        steps.append(1)
        if len(steps) == 3:
            with torch.no_grad():
                for parameter in trained.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.05)
            pushes.append(asyncio.ensure_future(sync.push(1)))

    agent = ChatAgent(engine, tokenizer, prompt="bare", sampling=Sampling(temperature=0.8), turn_tokens=5)

    async def played():
        with closing(RolloutPool({"e": lambda: Swapping(horizon=5)}, RolloutConfig(concurrency=4))) as pool:
            found = await pool.collect(agent, jobs_of("e", [Swapping().numbered(n) for n in range(4)], 2, seed=3))
            await asyncio.gather(*pushes)
            return found

    Swapping.on_step = staticmethod(on_step)
    found = asyncio.run(played())
    versions = [[turn.policy_version for turn in episode.turns] for episode in found]
    assert all(of_one == sorted(of_one) for of_one in versions) and any(set(of_one) == {0, 1} for of_one in versions)
    scorers = [HFEngine(one, tokenizer, slots=1) for one in (before, trained)]
    for episode in found:
        for turn in episode.turns:
            ids = [*turn.prompt_ids, *turn.output_ids]
            known = asyncio.run(scorers[turn.policy_version].score(ids, 0.8))[-len(turn.output_ids) :]
            assert turn.logprobs == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("old_logprobs", ["auto", "trainer"])
def test_the_gradient_of_old_tokens_by_hand(old_logprobs):
    """One update: d loss / d logprob of a token is -A * w / tokens.

    Against the engine w is trainer / sampled, 0 where the clip holds; against the trainer min(trainer / sampled, cap).
    """
    model = tiny_rows.tiny_model()
    (episode,), _ = tiny_rows.token_episodes(n=1, seed=4)
    for version, turn in enumerate(episode.turns):
        turn.policy_version = version
    rival = copy.deepcopy(episode)
    episode.pay_last(1.0, {})
    episode.success, rival.success, rival.attempt = True, False, 1
    config = TrainConfig(
        async_level=2, minibatches=1, credit="grpo", lr=1.0, grad_clip=1e9, tis_cap=1.5, batch_tokens=512,
        old_logprobs=old_logprobs, clip_low=0.3, clip_high=0.3,
    )  # fmt: skip
    credit, rows = resolve("grpo"), build([episode, rival], credit_of := list(resolve("grpo")([[episode, rival]])[0]))
    scorer = Scorer(model, 1.0, "rows")
    batches = pack(rows, token_weights(rows), 4096)
    expected, clipped = torch.zeros(()), 0
    for batch in batches:
        new = scorer(batch).logprobs
        weight = (new.detach() - batch.logprobs).exp()
        if config.differs:
            weight = weight.clamp(max=1.5)
        else:
            is_clipped = torch.where(batch.advantages > 0, weight > 1.3, weight < 0.7)
            weight, clipped = weight.masked_fill(is_clipped, 0.0), clipped + int(is_clipped.sum())
        expected = expected - (batch.advantages * weight * new).sum() / sum(row.trained for row in rows)
    assert len({round(float(a[0]), 6) for a in credit_of}) == 2 and config.differs == (old_logprobs == "trainer")
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trained = TrainedModel(Single(), scorer, [torch.optim.SGD(model.parameters(), lr=1.0)])
    metrics = reinforce(trained, [[episode, rival]], credit, config, 0)
    for was, parameter, gradient in zip(before, model.parameters(), wanted, strict=True):
        assert torch.allclose(was - parameter, gradient, atol=1e-6)
    assert metrics["mismatch_ess"] < 1
    assert metrics["correction"] < 1.5 if config.differs else "correction" not in metrics and clipped


class Single:
    """accelerate's part in a step of one process."""

    num_processes, device = 1, torch.device("cpu")

    @staticmethod
    def backward(loss):
        loss.backward()

    @staticmethod
    def clip_grad_norm_(parameters, most):
        return torch.nn.utils.clip_grad_norm_(parameters, most)

    @staticmethod
    def unwrap_model(model):
        return model


@settings(max_examples=60, deadline=None)
@given(level=st.integers(0, 4), lengths=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_no_step_is_drawn_before_its_time_and_each_is_played_once(level, lengths):
    updates, drawn, played = 0, [], []

    async def draw(step, number, before):
        assert updates >= step - level  # its tokens are at most so many versions old when it is trained
        drawn.append(step)
        return [Draw(Task(id=str(step)))] * number

    async def collect(draws, step, key, progress):
        for _ in range(lengths[step]):
            await asyncio.sleep(0)
        played.append(step)
        return [step]

    async def meet():
        """There is no other process."""

    run = SimpleNamespace(draw=draw, collect=collect, meet=meet)

    async def steps():
        nonlocal updates
        ahead = StepScheduler(run, Pace(level, len(lengths), 2, 1.0, "sampler 'x'"), lambda step, draws: None, {})
        for step in range(len(lengths)):
            assert await ahead.take(step) == ([Draw(Task(id=str(step)))] * 2, [step])
            pending = {number: [task["task"] for task in draws] for number, draws in ahead.state_dict().items()}
            last = min(step + level, len(lengths) - 1)
            assert pending == {number: [str(number)] * 2 for number in range(step + 1, last + 1)}
            for _ in range(3):
                await asyncio.sleep(0)
            updates += 1

    asyncio.run(steps())
    assert drawn == sorted(played) == list(range(len(lengths)))


def test_what_was_asked_for_earlier_gets_the_free_places_first():
    ended = []

    async def both():
        with closing(RolloutPool({"e": small_envs.Small}, RolloutConfig(concurrency=2))) as pool:
            jobs = jobs_of("e", [small_envs.Small().numbered(n) for n in range(6)], 1, seed=0)

            def collected(rank):
                callback = lambda _: ended.append(rank)  # noqa: E731
                return asyncio.ensure_future(pool.collect(agentgym.agents.OracleAgent(), jobs, progress=callback, rank=rank))

            later = collected(7)
            await asyncio.sleep(0)
            await asyncio.gather(later, collected(3))

    asyncio.run(both())
    first = ended.index(3)
    assert ended[first : first + 5] == [3] * 5  # its last job may end beside the other's
    assert ended[-1] == 7 and sorted(ended) == [3] * 6 + [7] * 6


@learner("still")
class Still(Learner):
    """A learner that says nothing of its engine."""

    def update(self, minibatch, loss, step):
        return UpdateResult()

    async def publish(self, version):
        pass

    def save(self, folder):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "async_level is 1 and has no effect with steps = 0"),
        ({"agent": "some:agent"}, "async_level is 1 with agent 'some:agent'"),
        ({"sampler": "starts"}, "async_level is 1 with sampler 'starts': its episodes begin inside a demonstration"),
        ({"learner": f"{__name__}:Still"}, "learner .* does not declare that its engine samples from its own copy"),
    ],
)
def test_what_cannot_overlap_is_refused_with_the_reason(changes, message):
    with pytest.raises(BadConfig, match=message):
        check_run(TrainConfig(env="rlvr/GuessNumber-v0", async_level=1, prompt="bare", **changes))


def test_a_start_cannot_be_in_flight():
    draws = [Draw(Task(id="t"), start=Start(snapshot=None))]

    async def draw(step, number, before):
        return draws

    pace = Pace(level=1, steps=1, tasks=1, oversample=1.0, drawn_by="sampler 'mine'")
    with pytest.raises(BadConfig, match="sampler 'mine' drew task 't' with a start"):
        asyncio.run(StepScheduler(SimpleNamespace(draw=draw), pace, lambda step, draws: None, {}).take(0))


def test_a_loss_that_leaves_out_old_tokens_goes_with_overlap_over_the_trainers_own_engine():
    check(fresh(TrainConfig(loss="icepop", precision="fp32", async_level=1, old_logprobs="trainer")))
    with pytest.raises(BadConfig, match="--old-logprobs trainer"):
        check(fresh(TrainConfig(loss="icepop", precision="fp32", async_level=1)))
    with pytest.raises(BadConfig, match="icepop"):
        check(fresh(TrainConfig(loss="icepop", precision="fp32")))
    assert math.isclose(TrainConfig(async_level=0).tis_cap, 2.0) and not TrainConfig(precision="fp32").differs


def test_an_answer_that_came_while_this_process_was_busy_is_no_timeout():
    """As long as a checkpoint is written, nobody looks at the answers that come (`wait_for` from Python 3.12 on)."""

    async def timed_step():
        workers = Workers([small_envs.Blocking], 1)
        try:
            hosted = workers.hosted()
            await hosted.reset(0, {}, 60)
            pending = asyncio.ensure_future(hosted.step("1", 0.4))
            await asyncio.sleep(0)
            while not hosted.worker.connection.poll():
                time.sleep(0.05)
            time.sleep(0.5)
            return await pending
        finally:
            workers.close()

    assert asyncio.run(timed_step())[0]
