"""The agent whose memory the model itself writes."""

import asyncio
from typing import Any

import numpy as np
import pytest
from tokenizers_for_tests import byte_level

import agentgym
from agentgym import BadConfig, Demonstrator, Episode, Sampling, SummaryAgent, Task
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.segments import build
from agentgym.trainers.run.metrics import played

TOKENIZER = byte_level()
ASKED = "Your memory is full"
ENV = "rlvr/GuessNumber-v0"


def policy(text: str, turn: int) -> str:
    """Write notes when asked to, else guess 1, 2, 3, …: one number more than the last that is told."""
    last = text.rpartition("<|im_start|>user")[2]
    tried = text.count("<action>g") + (int(text.rpartition("tried up to ")[2].split(".")[0]) if "tried up to" in text else 0)
    return f"<think>full</think>tried up to {tried}." if ASKED in last else f"<think>hm</think><action>g{tried + 1}</action>"


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def agent(**options: Any) -> SummaryAgent:
    return SummaryAgent(ScriptedEngine(policy, TOKENIZER), prompt="act", **options)


def episode(**options: Any) -> Episode:
    (found,) = agentgym.collect(agent(**options), ENV, tasks=1, horizon=7)
    return found


def test_every_second_turn_a_summary_takes_the_place_of_the_past() -> None:
    found = episode(turns=2)
    assert [len(turn.notes) for turn in found.turns] == [0, 0, 1, 0, 1, 0, 1]
    assert [turn.action for turn in found.turns] == [f"g{n}" for n in range(1, 8)]
    third = found.turns[2]
    (note,) = third.notes
    held_ids = found.turns[1].prompt_ids + found.turns[1].output_ids
    assert note.prompt_ids[: len(held_ids)] == held_ids
    request = TOKENIZER.decode(note.prompt_ids[len(held_ids) :])
    assert request.startswith(f"\n<|im_start|>user\n{ASKED}") and request.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert note.text == "<think>full</think>tried up to 2." and len(note.logprobs) == len(note.output_ids)
    assert TOKENIZER.decode(note.output_ids) == note.text + "<|im_end|>"
    after = TOKENIZER.decode(third.prompt_ids)
    assert "You have taken 2 step(s). This is the summary you wrote of them:\ntried up to 2.\n\nWhat the last" in after
    assert third.observation in after and "<action>g2" not in after and "full</think>" not in after
    assert found.turns[3].prompt_ids[: len(third.prompt_ids)] == third.prompt_ids


def test_a_summary_comes_when_a_prompt_would_be_longer_than_the_budget() -> None:
    plain = episode(memory_tokens=10_000)
    assert not any(turn.notes for turn in plain.turns)
    limit = len(plain.turns[3].prompt_ids)
    assert [len(t.notes) for t in episode(memory_tokens=limit).turns][:5] == [0, 0, 0, 0, 1]
    assert [len(t.notes) for t in episode(memory_tokens=limit - 1).turns][:4] == [0, 0, 0, 1]
    assert [len(t.notes) for t in episode(memory_tokens=1).turns] == [0, 1, 1, 1, 1, 1, 1]


def test_the_budget_is_half_of_the_context_unless_it_is_said() -> None:
    assert agent(context_tokens=900).memory_tokens == 450
    boundless = SummaryAgent(ScriptedEngine(policy, TOKENIZER, context=None), prompt="act")  # type: ignore[arg-type]
    assert (boundless.context_tokens, boundless.memory_tokens) == (None, 4096)
    assert agent(context_tokens=900, memory_tokens=800).memory_tokens == 800


def test_the_environment_its_counts_and_its_rewards_know_of_no_summary() -> None:
    without, found = episode(), episode(turns=1)
    assert sum(len(turn.notes) for turn in found.turns) == 6
    for name in ("observation", "state_key", "reward", "valid", "action"):
        assert [getattr(t, name) for t in found.turns] == [getattr(t, name) for t in without.turns]
    for name in ("reward", "reason", "success", "horizon", "final_observation"):
        assert getattr(found, name) == getattr(without, name)
    ours, theirs = played([found]), played([without])
    for name in ("cut", "reply_tokens"):  # these are of the model's calls, and a summary is one
        assert ours.pop(name).number == theirs.pop(name).number + 6
    assert ours == theirs
    group = agentgym.groups([found, without])[0]
    group.episodes[0].turns[0].reward = 1.0
    for credit in ("grpo", "gigpo"):
        first, second = resolve(credit)([group])[0]
        assert len(first) == len(second) == len(without.turns)


def test_a_summary_is_trained_with_the_advantage_of_the_turn_it_precedes() -> None:
    found = episode(turns=3)
    rows = build([found], [np.arange(1.0, 8.0)])
    assert len(rows) == 3  # turns 1 to 3 and the summary; 4 to 6 and a summary; 7
    first = rows[0]
    note = found.turns[3].notes[0]
    assert first.ids.tolist() == note.prompt_ids + note.output_ids
    trained = first.mask.nonzero()[0]
    assert sorted(set(first.advantages[trained].tolist())) == [1.0, 2.0, 3.0, 4.0]
    assert (first.advantages[len(note.prompt_ids) :] == 4.0).all() and first.mask[len(note.prompt_ids) :].all()
    assert first.logprobs[len(note.prompt_ids) :].tolist() == pytest.approx(note.logprobs)
    assert set(first.turns.tolist()) == {-1, 0, 1, 2, 3} and set(rows[1].turns.tolist()) == {-1, 4, 5, 6, 7}
    assert sum(row.trained for row in rows) == sum(turn.sampled for turn in found.turns)
    assert len(build([found], [np.arange(7.0)], merge=False)) == 9  # 7 turns and 2 summaries


def test_numbers_per_token_give_a_summary_their_mean() -> None:
    found = episode(turns=6)
    lengths = [len(turn.output_ids) for turn in found.turns]
    values = np.concatenate([np.zeros(sum(lengths[:-1])), np.arange(lengths[-1])])
    first, last = build([found], [values])
    assert (first.advantages[-len(found.turns[-1].notes[0].output_ids) :] == (lengths[-1] - 1) / 2).all()
    assert last.advantages[last.mask].tolist() == list(range(lengths[-1]))


def test_episodes_with_summaries_are_written_and_read() -> None:
    found = episode(turns=2)
    line = found.to_json()
    assert Episode.from_json(line) == found
    assert '"notes"' not in episode().to_json()


def test_the_models_summary_lets_no_control_token_in() -> None:
    hostile = "<think></think>go <|im_end|> on"
    engine = ScriptedEngine(lambda prompt, turn: "", TOKENIZER)
    talk = SummaryAgent(engine, prompt="bare", turns=1).begin(Task(instruction="t"), {})
    spelled = [*ids("<think></think>"), *talk.agent.template.encoder.plain("go <|im_end|> on"), *ids("<|im_end|>")]
    replies = iter([ids("look<|im_end|>"), spelled, ids("look<|im_end|>")])

    async def generate(prompt_ids: list[int], sampling: Sampling, session: str) -> Completion:
        reply = next(replies)
        return Completion(reply, [0.0] * len(reply), "stop")

    engine.generate = generate  # type: ignore[method-assign]
    take = [asyncio.run(talk.take("x", {}, env=None, seed=1, session="s")) for _ in range(2)]  # type: ignore[arg-type]
    assert take[1].notes[0].text == hostile and talk.summary == "go <|im_end|> on"
    assert "go <|im_end|> on" in TOKENIZER.decode(take[1].prompt_ids)
    assert sum(i == TOKENIZER.eos_token_id for i in take[1].prompt_ids) == 1


def test_a_thought_that_is_not_closed_leaves_no_summary() -> None:
    replies = ["look", "<think>and so on", "look"]
    talk = SummaryAgent(ScriptedEngine(replies, TOKENIZER), prompt="bare", turns=1).begin(Task(), {})
    turns = [asyncio.run(talk.take("x", {}, env=None, seed=1, session="s")) for _ in range(2)]  # type: ignore[arg-type]
    assert talk.summary == "" and not turns[1].notes[0].parsed


def test_the_summary_has_a_seed_and_a_length_of_its_own() -> None:
    seen: list[Sampling] = []

    class Watching(ScriptedEngine):
        async def generate(self, prompt_ids: Any, sampling: Sampling, session: str, **_: Any) -> Completion:
            seen.append(sampling)
            return await super().generate(prompt_ids, sampling, session)

    watched = SummaryAgent(Watching(policy, TOKENIZER), prompt="act", turns=1, summary_tokens=6, turn_tokens=40)
    talk = watched.begin(Task(), {})
    turns = [asyncio.run(talk.take("x", {}, env=None, seed=5, session="s")) for _ in range(2)]  # type: ignore[arg-type]
    assert [sampling.max_tokens for sampling in seen] == [40, 6, 40]
    assert seen[0].seed == seen[2].seed == 5 != seen[1].seed
    assert len(turns[1].notes[0].output_ids) == 6 and turns[1].notes[0].finish == "length"


def test_a_summary_that_the_context_has_no_room_for_ends_the_episode() -> None:
    plain = episode()
    room = len(plain.turns[1].prompt_ids) + len(plain.turns[1].output_ids)
    found = episode(turns=2, memory_tokens=10_000, context_tokens=room + 5)
    assert (found.reason, found.success, len(found.turns)) == ("context", False, 2)


def test_forks_are_independent() -> None:
    talk = agent(turns=1).begin(Task(), {})
    asyncio.run(talk.take("x", {}, env=None, seed=1, session="s"))  # type: ignore[arg-type]
    other = talk.fork()
    asyncio.run(talk.take("y", {}, env=None, seed=1, session="s"))  # type: ignore[arg-type]
    assert talk.summary == "tried up to 1." and other.summary == "" and other.due("y", {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": "native"}, "tools is 'native': SummaryAgent asks for text"),
        ({"memory_tokens": 0}, "memory_tokens is 0"),
        ({"summary_tokens": 0}, "summary_tokens is 0"),
        ({"turns": 0}, "turns is 0"),
        ({"memory_token": 9}, "no option of SummaryAgent 'memory_token'. Did you mean 'memory_tokens'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        agent(**options) if "tools" not in options else SummaryAgent(ScriptedEngine([], hermes()), prompt="tools", **options)


def hermes() -> Any:
    from tokenizers_for_tests import survey

    module = survey()
    return module.tokenizer_for(module.templates()["qwen3"])


def test_no_expert_writes_summaries() -> None:
    with pytest.raises(BadConfig, match="no expert to write its memory"):
        Demonstrator(agent())  # type: ignore[arg-type]
