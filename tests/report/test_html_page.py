"""The page as text: what is in it, what is not, and what cannot get out of its data element."""

import base64
import hashlib
import html.parser
import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ATTACKS, attack_episode, write_run  # pyright: ignore
from hypothesis import given
from hypothesis import strategies as st

from agentgym import BadConfig, BadData, Episode, Turn
from agentgym.report import html as page_module
from agentgym.report.html import cut, embed, write_report
from agentgym.report.run_folder import Row, open_run, place, read_metrics
from agentgym.report.sample import display_order, select
from agentgym.report.tokens import tokens


class Reader(html.parser.HTMLParser):
    """Collects elements, and the contents of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in self.raw:
            self.raw[self.inside][-1] += data


@pytest.fixture(scope="module")
def page(run_folder: Path) -> Reader:
    return Reader(write_report(run_folder).read_text(encoding="utf-8"))


def test_the_data_survives_and_nothing_in_it_is_markup(page: Reader):
    assert [tag for tag, _ in page.tags if tag in ("img", "svg", "b", "iframe", "object", "link")] == []
    assert len(page.raw["script"]) == 2
    data = json.loads(page.raw["script"][0])
    attacked = next(e for e in data["episodes"] if e["task"] == ATTACKS[0])
    original = attack_episode()
    assert attacked["turns"][0]["observation"] == original.turns[0].observation
    assert attacked["turns"][0]["error"] == original.turns[0].error
    assert attacked["final"] == original.final_observation
    assert attacked["turns"][0]["messages"] == [[ATTACKS[0], ATTACKS[4]]]


def test_the_policy_names_the_only_script_and_style_there_are(page: Reader):
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    for source, kind in ((page.raw["script"][1], "script-src"), (page.raw["style"][0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_nothing_is_loaded_and_nothing_becomes_markup_in_the_script(page: Reader):
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert "href" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
    code = page.raw["script"][1]
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function", "fetch(", "XMLHttp"):
        assert word not in code, word
    assert set(re.findall(r"https?://[^\"'\s)]+", code)) == {"http://www.w3.org/2000/svg"}


def test_the_title_is_escaped(page: Reader):
    assert page.raw["title"] == ["demo <b>run & %%data%% · agentgym"]


@given(st.recursive(st.text() | st.floats() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_embedded_json_is_inert_ascii_and_reads_back(value: Any):
    text = embed({"value": value})
    assert text.isascii()
    assert not set("<>&") & set(text)

    def plain(item: Any) -> Any:
        if isinstance(item, float):
            return item if math.isfinite(item) else None
        if isinstance(item, dict):
            return {key: plain(inner) for key, inner in item.items()}
        return [plain(inner) for inner in item] if isinstance(item, list) else item

    assert json.loads(text) == {"value": plain(value)}


def test_steps_and_parts_come_from_the_group_id():
    assert place("12/train/0/1234") == ("train", "12")
    assert place("eval/12/valid/0/3") == ("eval", "12")
    assert place("eval/sft/12/valid/0/3") == ("eval", "SFT update 12")
    assert place("success_sft/test/0/3") == ("eval", "after the SFT warm start")
    assert place("valid/0/3") == ("", "")


def test_success_by_type_is_of_all_episodes_and_faults_stay_apart(tmp_path: Path):
    folder = write_run(tmp_path / "run")
    rows = list(open_run(folder).rows())
    data = json.loads(Reader(write_report(folder, limit=5).read_text(encoding="utf-8")).raw["script"][0])
    assert len(data["episodes"]) == 5
    whole = [row for table in data["types"] for row in table["rows"] if row.get("whole")]
    assert sum(row["episodes"] + row["faults"] for row in whole) == len(rows)
    assert sum(row["faults"] for row in whole) == sum(row.outcome == "fault" for row in rows)
    assert data["counts"]["failed"][1] == sum(row.outcome == "failed" for row in rows)
    assert {table["step"] for table in data["types"] if table["part"] == "eval"} == {"0", "10", "20", "30", "40", "50"}


def row(number: int, outcome: str) -> Row:
    return Row(number, "me/Env-v0", str(number), "", "", "", "", outcome, group=str(number))


@given(st.lists(st.sampled_from(["failed", "succeeded", "fault"]), max_size=60), st.integers(1, 40))
def test_properties_of_the_sample(outcomes: list[str], limit: int):
    rows = [row(i, outcome) for i, outcome in enumerate(outcomes)]
    chosen = select(rows, limit)
    assert len(chosen) == min(limit, len(rows))
    assert len(set(chosen)) == len(chosen)
    assert chosen == sorted(chosen, key=lambda r: r.offset)
    failures = sum(r.outcome == "failed" for r in chosen)
    assert failures == outcomes.count("failed") or failures >= limit // 2 - 1


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["failed", "succeeded", "fault"])), max_size=60),
    st.integers(1, 40),
)
def test_groups_are_whole_or_not_there(members: list[tuple[int, str]], limit: int):
    rows = [replace(row(i, outcome), group=str(group)) for i, (group, outcome) in enumerate(members)]
    size = Counter(r.group for r in rows)
    chosen = select(rows, limit)
    group_sizes = Counter(r.group for r in chosen)
    assert len(chosen) <= limit and bool(chosen) == bool(rows)
    assert all(group_sizes[group] == size[group] for group in group_sizes) or len(group_sizes) == 1
    left = [size[group] for group in size if group not in group_sizes]
    assert not left or min(left) > limit - len(chosen)  # whatever would have fitted is there


def test_a_sample_is_spread_over_the_run():
    chosen = select([row(i, "failed") for i in range(1024)], 8)
    assert [r.offset for r in chosen] == list(range(0, 1024, 128))


def test_the_last_evaluation_is_shown_first_and_groups_stay_together():
    made = [
        ("train", "1", "1/a", 0), ("train", "1", "1/b", 0), ("train", "1", "1/a", 1), ("eval", "1", "eval/1/x", 0),
        ("train", "2", "2/a", 0), ("eval", "after training", "success_after/x", 0),
    ]  # fmt: skip
    rows = [Row(i, "e", g, "", "", part, step, "failed", g, attempt) for i, (part, step, g, attempt) in enumerate(made)]
    assert [r.offset for r in display_order(rows)] == [5, 3, 4, 0, 2, 1]


def test_tokens_tell_their_numbers(tmp_path: Path):
    folder = write_run(tmp_path / "run", steps=10)
    data = json.loads(Reader(write_report(folder).read_text(encoding="utf-8")).raw["script"][0])
    assert all(turn["pieces"] == [] for e in data["episodes"] for turn in e["turns"])  # no tokenizer lies beside the run
    turn = Turn("o", output_ids=[5, 6, 7], logprobs=[-1.0, -2.0, -0.5])
    turn.extra = {"advantage": 0.25, "logprobs": [-1.5, -2.0, -0.25]}
    decode = [f"<{i}>" for i in range(10)]
    assert tokens(turn, lambda ids: [decode[i] for i in ids]) == [
        ["<5>", -1.0, 0.25, -0.5], ["<6>", -2.0, 0.25, 0.0], ["<7>", -0.5, 0.25, 0.25],
    ]  # fmt: skip
    turn.extra = {"advantage": [0.0, 1.0]}  # which does not fit
    assert tokens(turn, lambda ids: [decode[i] for i in ids])[1] == ["<6>", -2.0, None, None]


def test_a_large_run_stays_a_small_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_module, "LARGEST", 60_000)
    folder = write_run(tmp_path / "run", each=20)
    path = write_report(folder)
    data = json.loads(Reader(path.read_text(encoding="utf-8")).raw["script"][0])
    assert 0 < len(data["episodes"]) < 40
    assert data["counts"]["failed"][0] == sum(e["outcome"] == "failed" for e in data["episodes"])
    assert data["counts"]["failed"][1] > data["counts"]["failed"][0]


def test_long_texts_lose_their_middle():
    text = cut("a" * 6000 + "b" * 6000)
    assert text.startswith("a" * 4000 + "\n… 4000 characters left out …")
    assert text.endswith("b" * 4000)
    assert cut("short") == "short"


def test_a_file_of_episodes_has_a_page_beside_it(tmp_path: Path):
    path = tmp_path / "eval.jsonl"
    path.write_text(
        Episode("me/Env-v0", "12/x", "12/x", 0, turns=[Turn("hello")], success=True, reason="success").to_json() + "\n"
    )
    assert write_report(path) == tmp_path / "eval.html"
    data = json.loads(Reader((tmp_path / "eval.html").read_text(encoding="utf-8")).raw["script"][0])
    assert data["episodes"][0]["part"] == ""  # numbers in a task id are steps only in a training run


def test_a_cut_last_line_is_left_out_and_a_damaged_one_is_named(tmp_path: Path):
    folder = write_run(tmp_path / "run")
    path = folder / "episodes.jsonl"
    whole = path.read_text(encoding="utf-8")
    count = len(list(open_run(folder).rows()))
    path.write_text(whole + whole[:200], encoding="utf-8")
    assert len(list(open_run(folder).rows())) == count
    path.write_text(whole + "{}\n", encoding="utf-8")
    with pytest.raises(BadData, match=rf"episodes\.jsonl, line {count + 1}"):
        write_report(folder)


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_is_no_run_is_refused(tmp_path: Path, name: str):
    with pytest.raises(BadConfig, match=r"expected"):
        write_report(tmp_path / name)


def test_metrics_of_a_repeated_step_and_a_cut_line(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    rows = [
        {"step": 20, "phase": "sft", "loss": 2.0},
        {"step": 40, "phase": "sft", "loss": 1.0},
        {"step": 1, "phase": "rl", "loss": 0.5},
        {"step": 2, "phase": "rl", "loss": 9.0},
        {"step": 2, "phase": "rl", "loss": 0.25},
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows) + '{"step": 3, "ph')
    found = read_metrics(path)
    assert [(r["x"], r["loss"]) for r in found] == [(-20, 2.0), (0, 1.0), (1, 0.5), (2, 0.25)]
    for bad in (b"[]", b'{"step": 1, "phase": "\xe6\x97"}'):
        path.write_bytes(b'{"step": 1}\n' + bad + b"\n")
        with pytest.raises(BadData, match=r"metrics\.jsonl, line 2"):
            read_metrics(path)
