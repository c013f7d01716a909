"""Episodes are written as JSON lines and come back as they were."""

import copy
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import BadData, Episode, Turn, groups, read_episodes
from agentgym.report.run_folder import open_run

ids = st.lists(st.integers(0, 9), max_size=8)
texts = st.text(max_size=10)


@st.composite
def episodes(draw):
    turns, held_ids = [], []
    for _ in range(draw(st.integers(0, 4))):
        prompt = (held_ids if draw(st.booleans()) else held_ids[: draw(st.integers(0, len(held_ids)))]) + draw(ids)
        output = draw(ids)
        turns.append(
            Turn(draw(texts), prompt_ids=prompt, output_ids=output, logprobs=[-0.5] * len(output), action=draw(texts))
        )
        held_ids = prompt + output
    return Episode("e", draw(texts), "g", draw(st.integers(0, 2**62)), turns=turns, reason="success", success=True)


@given(episodes())
def test_what_is_written_is_read(episode):
    line = episode.to_json()
    assert "\n" not in line and Episode.from_json(line) == episode


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029", "\x1c", "\x0b", "\r"])
def test_one_episode_is_one_line_for_every_reader(mark):
    episode = Episode("e", "t", "g", 0, turns=[Turn(f"a{mark}b", action=mark)])
    (line,) = episode.to_json().splitlines()
    assert Episode.from_json(line) == episode


def test_a_prompt_is_written_as_what_it_adds():
    first, second = Turn("a", prompt_ids=[1, 2], output_ids=[3]), Turn("b", prompt_ids=[1, 2, 3, 4], output_ids=[5])
    third = Turn("c", prompt_ids=[1, 9], output_ids=[])
    raw = json.loads(Episode("e", "t", "g", 0, turns=[first, second, third]).to_json())
    assert [turn["prompt_ids"] for turn in raw["turns"]] == [[0, [1, 2]], [3, [4]], [1, [9]]]


def test_arrays_in_extra_become_lists():
    turn = Turn("a", extra={"values": np.array([0.5, 1.0])})
    assert Episode.from_json(Episode("e", "t", "g", 0, turns=[turn]).to_json()).turns[0].extra == {"values": [0.5, 1.0]}


@pytest.mark.parametrize(
    "line", ["", "3", "[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "turns": [{}]}', "{" * 9999, "null"]
)
def test_what_is_no_episode_says_so(line):
    with pytest.raises(BadData):
        Episode.from_json(line)


def test_a_line_cut_by_a_crash_is_left_out_and_a_bad_one_is_named(tmp_path):
    path, line = tmp_path / "episodes.jsonl", Episode("e", "t", "g", 0).to_json()
    path.write_text(f"{line}\n{Episode('e', 't', 'g', 0, 1).to_json()}\n{line[:30]}")
    assert len(read_episodes(path)) == 2
    path.write_text(f"{line}\n{line[:30]}\n{line}\n")
    with pytest.raises(BadData, match=r"episodes.jsonl, line 2: "):
        read_episodes(path)


def episode(group, reward=0.0, roles=("agent",), **more):
    turns = [Turn("o", role=role, reward=reward) for role in roles]
    return Episode("e", "t", group, 0, turns=turns, reward=reward, **more)


def test_a_line_cut_within_a_character_is_left_out_and_a_bad_one_is_named(tmp_path):
    path = tmp_path / "episodes.jsonl"
    line = Episode("e", "t", "g", 0, turns=[], instruction="\u65e5\u672c").to_json().encode()
    cut = line.index("\u672c".encode()) + 1
    path.write_bytes(line + b"\n" + line[:cut])
    assert [episode.instruction for episode in read_episodes(path)] == ["\u65e5\u672c"]
    path.write_bytes(line[:cut] + b"\n" + line + b"\n")
    with pytest.raises(BadData, match=r"episodes\.jsonl, line 1: .*utf-8"):
        read_episodes(path)


def test_groups_are_by_group_and_role_and_leave_faults_out():
    one = episode("g", 1.0)
    two = episode("h", roles=("X", "O", "X"), final_rewards={"X": 1.0, "O": 0.0})
    found = groups([one, two, episode("g"), episode("g", reason="timeout"), Episode("e", "t", "g", 0)])
    assert [(group.role, len(group)) for group in found] == [("agent", 2), ("X", 1), ("O", 1)]
    assert found[0][0] is one
    assert (len(found[1][0].turns), found[1][0].reward, found[2][0].reward) == (2, 1.0, 0.0)
    assert len(two.turns) == 3  # a view copies, it does not take


@pytest.mark.parametrize(
    ("reason", "fault"), [("success", False), ("horizon", False), ("context", False), ("timeout", True), ("engine", True)]
)
def test_faults(reason, fault):
    assert episode("g", reason=reason).fault is fault


@pytest.mark.parametrize(
    "change",
    [{"success": "yes"}, {"success": 7}, {"env": 5}, {"labels": None}, {"labels": {"type": 1}}, {"attempt": "0"}],
)
def test_values_of_another_kind_are_refused_with_their_line(change: dict[str, object]):
    raw = json.loads(Episode("w", "t", "g", 0).to_json())
    with pytest.raises(BadData, match="not an episode"):
        Episode.from_json(json.dumps({**raw, **change}))


def test_endless_nesting_is_no_episode():
    with pytest.raises(BadData, match="not an episode"):
        Episode.from_json('{"format": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 500), max_size=4), st.integers(0, 4)), max_size=6))
def test_prompts_of_an_episode_are_what_they_were_however_they_go_on(steps):
    """Each prompt goes on from the one before, from its beginning, or anew; forks of an episode go on apart."""
    one, other, held_ids, wanted = Episode("e", "t", "t", 0), Episode("e", "t", "t", 0), [], []
    for kind, fresh, cut in steps:
        prompt = [held_ids + fresh, held_ids[:cut] + fresh, fresh, held_ids][kind]
        wanted.append(prompt)
        held_ids = [*prompt, 7]
        for episode in (one, other) if kind else (one,):
            episode.add(Turn("o", prompt_ids=list(prompt), output_ids=[7]))
    assert [turn.prompt_ids for turn in one.turns] == wanted
    assert [list(turn.prompt_ids) for turn in Episode.from_json(one.to_json()).turns] == wanted
    for prompt, turn in zip(wanted, one.turns, strict=True):
        prompt_ids = turn.prompt_ids
        assert (len(prompt_ids), prompt_ids[:2], prompt_ids[1:], prompt_ids[::-1]) == (
            len(prompt),
            prompt[:2],
            prompt[1:],
            prompt[::-1],
        )
        assert prompt_ids + [1] == [*prompt, 1] and [1] + prompt_ids == [1, *prompt]  # noqa: RUF005  # sums are what is tested
        assert pickle.loads(pickle.dumps(prompt_ids)) == prompt
    assert [list(t.prompt_ids) for t in other.turns] == [w for w, (kind, _, _) in zip(wanted, steps, strict=True) if kind]


def long_episode():
    """43 turns to 32,000 tokens."""
    episode, held_ids = Episode("e", "t", "t", 0), []
    for number in range(43):
        prompt = [*held_ids, *(1000 + (number * 700 + k) % 5000 for k in range(700))]
        episode.add(Turn("o" * 2000, prompt_ids=prompt, output_ids=[5] * 44, logprobs=[-0.5] * 44))
        held_ids = [*prompt, *episode.turns[-1].output_ids]
    return episode


def test_an_episode_costs_what_its_turns_add():
    tracemalloc.start()
    episode = long_episode()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(episode.turns[-1].prompt_ids) > 31_000
    assert used < 1.6e6  # 7 MB where each turn holds a list of its own


def test_a_long_episode_is_written_without_copying_its_prompts(monkeypatch):
    copied = []
    monkeypatch.setattr(copy, "deepcopy", lambda value, *_: copied.append(value) or value)
    line = long_episode().to_json()
    assert not copied
    assert sum(len(turn["prompt_ids"][1]) for turn in json.loads(line)["turns"]) == 43 * 700


def test_notes_are_written_as_before():
    turn = Turn("o", prompt_ids=[1, 2, 9], output_ids=[4], notes=[Turn("n", prompt_ids=[1], output_ids=[2])])
    episode = Episode("e", "t", "t", 0)
    episode.add(turn)
    (written,) = json.loads(episode.to_json())["turns"]
    assert written["prompt_ids"] == [2, [9]] and written["notes"][0]["prompt_ids"] == [0, [1]]
    assert written["notes"][0]["notes"] == [] and Episode.from_json(episode.to_json()) == episode


def line(**changes):
    turn = {"observation": "o", "prompt_ids": [0, [1]], "output_ids": [2], **changes.pop("turn", {})}
    raw = {"format": 1, "env": "e", "task_id": "t", "group_id": "g", "seed": 0, "success": True, "reason": "success"}
    return json.dumps({**raw, "turns": [turn], **changes})


@pytest.mark.parametrize(
    "changes",
    [
        *({"reason": "crash"}, {"reason": "timeout", "success": False}, {"success": "false"}, {"success": 0.4}),
        *({"success": None, "reason": reason} for reason in ("success", "failure", "horizon", "context")),
        *({"success": [False, "why"]}, {"reward": float("nan")}, {"reward": float("inf")}, {"reward": "1"}, {"seed": "1"}),
        *({"turns": {}}, {"metrics": {"a": "x"}}, {"role_success": {"a": 1}}, {"horizon": 1.5}, {"final_observation": 3}),
        *({"turn": {name: value}} for name, value in (("text", 3), ("valid", "no"), ("reward", "1"), ("extra", []))),
        *(
            {"turn": {name: value}}
            for name, value in (("reward", float("nan")), ("rewards", {"a": None}), ("output_ids", [2.5]))
        ),
        *({"turn": {name: value}} for name, value in (("messages", [3]), ("messages", [{}]), ("logprobs", ["x"]))),
        *(
            {"turn": {name: value}}
            for name, value in (("prompt_ids", []), ("notes", [3]), ("admissible", "9"), ("error", 1), ("notes", None))
        ),
        *({"turn": {"prompt_ids": value}} for value in ([-1, []], [1, [2]], [True, [2]], [0, ["a"]], [0, [[]]], [0, [1.5]])),
        {"turn": {"notes": [{"observation": "", "prompt_ids": [0, []], "notes": [{"observation": 3}]}]}},
    ],
)
def test_what_a_stored_episode_cannot_say_is_refused_with_its_line(changes, tmp_path):
    assert Episode.from_json(line()).success
    path = tmp_path / "episodes.jsonl"
    path.write_text(f"{line()}\n{line(**changes)}\n")
    with pytest.raises(BadData, match=r"episodes\.jsonl, line 2: not an episode"):
        read_episodes(path)


def test_a_line_that_is_there_nine_times_counts_once(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text(f"{line()}\n" * 9 + f"{line(attempt=1)}\n")
    assert [episode.attempt for episode in read_episodes(path)] == [0, 1]
    assert [row.attempt for row in open_run(path).rows()] == [0, 1]


def test_lists_of_runs_refuse_strange_verdicts_too(tmp_path):
    for changes in ({"success": "false"}, {"reason": "crash"}, {"success": None}):
        (tmp_path / "episodes.jsonl").write_text(line(**changes) + "\n")
        with pytest.raises(BadData, match="line 1: not an episode"):
            list(open_run(tmp_path / "episodes.jsonl").rows())


def test_prompts_are_put_together_from_what_came_before() -> None:
    """A prompt may end within the reply before it; ids that are no list, or no integers, are refused."""
    prompts, outputs = [[1, 2, 3], [1, 2, 3, 4, 9], [1, 2, 8], [7]], [[4, 5], [6], [], [0]]
    turns = [Turn("", prompt_ids=ids, output_ids=out) for ids, out in zip(prompts, outputs, strict=True)]
    line = Episode("e", "t", "g", 0, turns=turns).to_json()
    assert [list(turn.prompt_ids) for turn in Episode.from_json(line).turns] == prompts
    raw = json.loads(line)
    for name, wrong in (("prompt_ids", [0, "ab"]), ("output_ids", [1.0]), ("output_ids", ["a"]), ("logprobs", [None])):
        record = json.loads(line)
        record["turns"][1] = {**raw["turns"][1], name: wrong}
        with pytest.raises(BadData, match="ids"):
            Episode.from_json(json.dumps(record))
