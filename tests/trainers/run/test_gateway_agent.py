"""Agents of others in a training run: what they say to their base URL comes back as episodes that can be trained on."""

import asyncio
import json
import sys
import threading
import types
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import conformance
import tiny

from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.errors import BadConfig, Fault, UnknownName
from agentgym.harness.gateway_agent import Access, GatewayAgent
from agentgym.registry import make
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.data.segments import build
from agentgym.trainers.model.policy import PolicySize, init_policy

ENV = "rlvr/GuessNumber-v0"
TASKS = make(ENV).tasks(3)


def ask(access: Access, messages: list[dict[str, str]], **options: Any) -> dict[str, str]:
    body = {"model": access.model, "messages": messages, "max_tokens": 6, **options}
    headers = {"Authorization": f"Bearer {access.api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{access.base_url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["message"]


def talk(access: Access, text: str, turns: int = 3, **options: Any) -> None:
    messages = [{"role": "user", "content": text}]
    for turn in range(turns):
        messages += [ask(access, messages, **options), {"role": "user", "content": f"and {turn}"}]


def collected(play: Any, engine: Any = None, **options: Any) -> Any:
    engine = engine or ScriptedEngine(lambda prompt, turn: "yes")
    own = {name: options.pop(name) for name in ("temperature", "seconds") if name in options}
    agent = GatewayAgent(play, engine, engine.tokenizer, **own)
    return asyncio.run(agent.collect(f"some.module:{ENV}", **{"tasks": TASKS, **options}))


def test_episodes_hold_the_exact_tokens_at_the_runs_temperature() -> None:
    model = tiny.model()

    def play(task: Any, access: Access) -> float:
        talk(access, task.instruction, temperature=0, top_p=0.1)  # overruled
        return 0.25 if task is TASKS[1] else 0

    episodes = collected(play, HFEngine(model, ByteTokenizer(), slots=4), attempts=2, group_prefix="7/", temperature=0.7)
    assert [(e.task_id, e.attempt) for e in episodes] == [(task.id, i) for task in TASKS for i in range(2)]
    assert [e.reward for e in episodes] == [0, 0, 0.25, 0.25, 0, 0]
    assert [e.success for e in episodes] == [False, False, True, True, False, False]
    for episode in episodes:
        assert (episode.env, episode.group_id) == (ENV, f"7/{episode.task_id}") and len(episode.turns) == 3
        (row,) = build([episode])
        assert row.trained == sum(len(turn.output_ids) for turn in episode.turns)
        for turn in episode.turns:
            want = conformance.reference_logprobs(model, turn.prompt_ids, turn.output_ids, 0.7)
            np.testing.assert_allclose(turn.logprobs, want, atol=1e-4)
    pair = [[turn.output_ids for turn in episode.turns] for episode in episodes[:2]]
    assert pair[0] != pair[1]  # every attempt draws on its own
    again = collected(play, HFEngine(model, ByteTokenizer(), slots=4), attempts=1, temperature=0.7)
    assert [turn.output_ids for turn in again[0].turns] == pair[0]


def test_async_agents_success_of_their_own_and_concurrency() -> None:
    running: list[int] = []
    most: list[int] = []

    async def play(task: Any, access: Access) -> tuple[float, bool]:
        running.append(1)
        most.append(len(running))
        await asyncio.to_thread(talk, access, "hi", 1)
        running.pop()
        return 0.5, False

    episodes = collected(play, attempts=4, concurrency=3)
    assert Counter((e.reward, e.success, e.reason) for e in episodes) == {(0.5, False, "failure"): 12}
    assert max(most) == 3


def test_what_an_agent_does_wrong_is_a_fault_of_its_attempt_alone() -> None:
    def play(task: Any, access: Access) -> Any:
        number = TASKS.index(task)
        if number == 0:
            talk(access, "hi", 1)
            raise RuntimeError("the harness broke")
        if number == 1:
            return 1.0  # and asked nothing
        talk(access, "hi", 1)
        calls.append(1)
        return 1 if len(calls) == 1 else "good"  # the second attempt's is no reward, whatever the model says

    calls: list[int] = []
    episodes = collected(play, attempts=2, concurrency=1)
    assert [episode.reason for episode in episodes] == ["crash"] * 4 + ["success", "crash"]
    errors = [(episode.error or "").strip().split("\n")[-1] for episode in episodes]
    assert errors[0] == "RuntimeError: the harness broke"
    assert errors[2] == "the agent asked nothing of the base URL that it was given"
    assert errors[5].endswith("returned 'good'; expected the reward, or (reward, success)")
    assert all(episode.success is None for episode in episodes if episode.fault)


def test_a_session_closed_for_room_is_a_fault_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its agent asks again afterwards or not: what it had said before is not in its episode."""

    def play(task: Any, access: Access) -> float:
        talk(access, "hi", 1)
        if task is not TASKS[2]:
            sessions = gateways[0].sessions
            sessions._most = 0
            sessions._trim(0)
            sessions._most = 100_000_000
            if task is TASKS[1]:
                talk(access, "hi", 1)
        return 1.0

    gateways: list[Any] = []
    made = GatewayAgent._gateway
    monkeypatch.setattr(GatewayAgent, "_gateway", lambda *args: gateways.append(made(*args)) or gateways[-1])
    episodes = collected(play, concurrency=1)
    assert [episode.success for episode in episodes] == [None, None, True]
    assert all("closed to make room" in (episode.error or "") for episode in episodes[:2])


def test_an_agent_that_raises_stop_iteration_is_a_fault_and_nobody_waits() -> None:
    """No future can hold it."""
    episodes = collected(lambda task, access: next(iter(())), tasks=TASKS[:1])
    assert [episode.reason for episode in episodes] == ["crash"]
    assert "StopIteration" in (episodes[0].error or "")


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit])
def test_an_async_agent_may_raise_what_would_end_more_than_its_attempt(raised: type[BaseException]) -> None:
    async def play(task: Any, access: Access) -> float:
        await asyncio.to_thread(talk, access, "hi", 1)
        if task is TASKS[1]:
            raise raised
        return 1.0

    episodes = collected(play, concurrency=1)
    assert [episode.reason for episode in episodes] == ["success", "crash", "success"]
    assert raised.__name__ in (episodes[1].error or "")


def says(*replies: str) -> ScriptedEngine:
    """Return an engine whose n-th reply to everybody together is the n-th of these, then the last."""
    left = iter(replies)
    return ScriptedEngine(lambda prompt, turn: next(left, replies[-1]))


def test_an_agent_that_crashes_on_the_models_reply_is_the_models_failure() -> None:
    """Plain replies do not run either: what an attempt that ran was told does."""

    def play(task: Any, access: Access) -> float:
        for _ in range(2):
            reply = ask(access, [{"role": "user", "content": task.instruction}], max_tokens=20)["content"]
            reward = json.loads(reply)["reward"]
        return reward

    engine = says('{"reward": 1}', '{"reward": 1}', '{"reward": 1}', "I forgot the braces", '{"reward": 0}')
    episodes = collected(play, engine, concurrency=1)
    assert [(e.success, e.reason, len(e.turns)) for e in episodes] == [
        (True, "success", 2),
        (False, "failure", 2),
        (False, "failure", 2),
    ]
    assert "made the agent fail twice" in (episodes[1].error or "") and "JSONDecodeError" in (episodes[1].error or "")
    assert episodes[1].reward == 0 and episodes[1].turns[1].text == "I forgot the braces" and not episodes[1].fault


def test_an_agent_that_loops_until_its_time_is_over_since_the_model_says_so() -> None:
    def play(task: Any, access: Access) -> float:
        while ask(access, [{"role": "user", "content": task.instruction}])["content"] == "more":
            pass
        return 1.0

    episodes = collected(play, says("more"), tasks=TASKS[:1], seconds=1.0)
    assert [(e.success, e.reason) for e in episodes] == [(False, "failure")] and len(episodes[0].turns) > 1
    assert "took more than 1 s" in (episodes[0].error or "")


def test_a_crash_that_other_replies_bring_too_or_that_its_own_do_not_bring_again_is_a_fault() -> None:
    def always(task: Any, access: Access) -> float:
        talk(access, "hi", 2)
        raise OSError("the disk is full")

    def once(task: Any, access: Access) -> float:
        talk(access, "hi", 2)
        calls.append(1)
        if len(calls) == 1:
            raise OSError("a short outage")
        return 1.0

    calls: list[int] = []
    for play in (always, once):
        (episode,) = collected(play, tasks=TASKS[:1])
        assert (episode.success, episode.reason, len(episode.turns)) == (None, "crash", 2)


def test_an_engine_that_leaves_an_agent_without_an_answer_is_no_failure_of_the_model() -> None:
    class Dying(ScriptedEngine):
        async def generate(self, *args: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) > 1:
                raise Fault("out of memory", reason="engine")
            return await super().generate(*args, **options)

    def play(task: Any, access: Access) -> float:
        talk(access, "hi", 2)
        return 1.0

    calls: list[int] = []
    (episode,) = collected(play, Dying(lambda prompt, turn: "yes"), tasks=TASKS[:1])
    assert (episode.success, episode.reason, len(episode.turns)) == (None, "engine", 1) and len(calls) == 2


def test_a_task_that_comes_twice_has_a_session_of_its_own_each_time() -> None:
    def play(task: Any, access: Access) -> float:
        talk(access, task.instruction, 2)
        return 1.0

    episodes = collected(play, tasks=[TASKS[0], TASKS[0]], attempts=2)
    assert [len(episode.turns) for episode in episodes] == [2, 2, 2, 2]


@pytest.mark.parametrize("waits", ["thread", "coroutine"])
def test_an_attempt_that_never_ends_is_a_fault_and_holds_nobody_up(waits: str) -> None:
    def play(task: Any, access: Access) -> float:
        talk(access, "hi", 1)
        if task is TASKS[1]:
            never.wait()
        if task is TASKS[2]:
            raise SystemExit(3) if waits == "thread" else OSError
        return 1.0

    async def played(task: Any, access: Access) -> float:
        if task is TASKS[1]:
            await asyncio.Event().wait()
        return await asyncio.to_thread(play, task, access)

    never = threading.Event()
    episodes = collected(play if waits == "thread" else played, seconds=1.0, concurrency=1)
    never.set()
    assert [episode.reason for episode in episodes][:2] == ["success", "timeout"]
    assert episodes[1].error == "the agent took more than 1 s" and episodes[2].reason == "crash"


def test_a_reply_that_the_agent_did_not_wait_for_is_waited_for() -> None:
    threads: list[threading.Thread] = []

    class Slow(ScriptedEngine):
        async def generate(self, *args: Any, **options: Any) -> Any:
            arrived.set()
            await asyncio.sleep(0.2)
            return await super().generate(*args, **options)

    def play(task: Any, access: Access) -> float:
        arrived.clear()
        threads.append(threading.Thread(target=talk, args=(access, "hi", 1)))
        threads[-1].start()
        assert arrived.wait(30)
        return 1.0

    arrived = threading.Event()
    episodes = collected(play, Slow(lambda prompt, turn: "yes"), concurrency=1)
    assert [len(episode.turns) for episode in episodes] == [1, 1, 1] and all(episode.success for episode in episodes)
    for thread in threads:
        thread.join(30)


def test_nobody_without_a_key_of_the_run_is_answered() -> None:
    def play(task: Any, access: Access) -> float:
        talk(access, "hi", 1)
        for key in ("", access.api_key[:-3].partition(":")[0][:-1]):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                ask(Access(access.base_url, key, access.model), [{"role": "user", "content": "hi"}])
        return 1.0

    assert all(episode.success for episode in collected(play))


def guess(task: Any, access: Access) -> float:
    """Pay for replies that hold a digit, so that there is something to learn at once."""
    messages = [{"role": "user", "content": task.instruction}]
    return float(any(letter.isdigit() for letter in ask(access, messages)["content"]))


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("harness_of_others")
    module.play = guess  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return f"{module.__name__}:play"


def test_a_run_with_an_agent_of_others_updates_the_policy(named: str, tmp_path: Path) -> None:
    size = PolicySize(width=64, layers=2, heads=2, vocabulary=400)
    policy = init_policy(ENV, tmp_path / "policy", size=size, episodes=50)
    config = TrainConfig(
        env=ENV, model=str(policy), agent=named, out=str(tmp_path / "run"), steps=2, tasks_per_step=8, group_size=4,
        credit="grpo", minibatches=1, eval_every=0, test_tasks=4, test_temperature=0.0, threads=1, lr=3e-3,
    )  # fmt: skip
    summary = train(config)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert summary["episodes"] == 2 * 32 and 0 <= summary["success_after"] <= 1
    assert [row["faults"] for row in rows] == [0, 0]
    updated = [row for row in rows if "grad_norm" in row]
    got = [(row["grad_norm"], row["mismatch_mean"], row.get("groups_dropped")) for row in updated]
    assert updated and all(norm > 0 and mismatch < 1e-4 for norm, mismatch, _ in got), got
    lines = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()]
    assert {turn["policy_version"] for line in lines for turn in line["turns"]} == {0, 1, 2}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"sft_episodes": 8}, "sft_episodes has no effect with agent"),
    ({"prompt": "react"}, "prompt has no effect with agent"),
    ({"horizon": (3,)}, "horizon has no effect with agent"),
    ({"agent": "chat", "attempt_seconds": 5.0}, "attempt_seconds has no effect with agent 'chat'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_settings_that_would_do_nothing_are_refused(number: int, named: str) -> None:
    changes, message = WRONG[number]
    with pytest.raises(BadConfig, match=message):
        TrainConfig(**{"env": ENV, "agent": named, **changes})


def test_a_wrong_agent_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'window'"):
        TrainConfig(agent="windows")
    with pytest.raises(UnknownName, match="no module 'nowhere_at_all' to take the agent from"):
        train(TrainConfig(env=ENV, agent="nowhere_at_all:play", out=str(tmp_path / "run"), steps=1))
    assert not (tmp_path / "run").exists()
