"""Protocols: nothing is left open, nothing is changed by a flag, and the report says what its numbers are worth."""

import json
from pathlib import Path

import pytest
from household_files import write_game

from agentgym import BadConfig, Episode
from agentgym.cli import main
from agentgym.evaluate.protocol import comparability, text_hash
from agentgym.evaluate.suite import read_suite, resolve, suites
from agentgym.registry import class_of

NAMED = [name for name in suites() if "@" in name]
PROMPT = "[turn]\n{observation}\n[reply]\nbare\n"
SUITE = """
split = "test"
tasks = 2
attempts = 1
horizon = 3
seed = 0
temperature = 0.5
turn_tokens = 4
agent = "chat"
prompt = "mine.txt"
envs = ["guessnumber"]
[protocol]
admissible = false
history = "all"
reward = "outcome"
"""


def protocol(folder: Path, text: str = SUITE, prompt: str = PROMPT) -> Path:
    (folder / "mine.txt").write_text(prompt)
    path = folder / "mine.toml"
    path.write_text(text + (f'prompt_hash = "{text_hash(prompt)}"\n' if "prompt_hash" not in text else ""))
    return path


@pytest.mark.parametrize("name", NAMED)
def test_the_packages_own_are_read_with_their_checks(name: str) -> None:
    suite = resolve(name)
    assert suite.protocol is not None and suite.name == name and suite.description


def test_the_hash_is_that_of_the_text() -> None:
    assert text_hash("abc") == "d8bb14d833d59559"  # b2sum -l 64


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 0\n", "", "leaves nothing open; missing or of the wrong type: seed"),
        ("attempts = 1\n", "", "wrong type: attempts"),
        ('history = "all"\n', "", "wrong type: history"),
        ("admissible = false", "admissible = 0", "wrong type: admissible"),
        ("admissible = false", "admissible = true", "admissible is True, but the evaluation would use False"),
        ('history = "all"', 'history = "last 2"', "history is 'last 2', but the evaluation would use 'all'"),
        ('reward = "outcome"', 'reward = "outcme"', "Did you mean 'outcome'"),
        ("admissible = false", "admisible = false", "Did you mean 'admissible'"),
        ('reward = "outcome"', 'reward = "outcome"\nprompt_hash = "00"', "prompt_hash is '00', but the evaluation would"),
        (
            'envs = ["guessnumber"]',
            "[envs]\nguessnumber = { options = { shaping = { a = 1.0 } } }",
            "shaping would pay for more",
        ),
    ],
)
def test_what_is_missing_or_not_so_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SUITE
    with pytest.raises(BadConfig, match=message):
        read_suite(protocol(tmp_path, SUITE.replace(old, new)))


def test_an_edited_prompt_is_another_protocol(tmp_path: Path) -> None:
    path = protocol(tmp_path)
    assert read_suite(path).protocol is not None
    (tmp_path / "mine.txt").write_text(PROMPT.replace("[turn]\n", "[turn]\nHurry.\n"))
    with pytest.raises(BadConfig, match="prompt_hash is"):
        read_suite(path)


@pytest.mark.parametrize("flag", ["--temperature", "--tasks", "--seed", "--env.difficulty", "--prompt", "--turn-tokens"])
def test_flags_that_would_change_it_are_refused(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = "bare" if flag == "--prompt" else "1"
    assert main(["eval", str(protocol(tmp_path)), "--policy", "oracle", flag, value]) == 2
    assert f"is a protocol and fixes what {flag} would change" in capsys.readouterr().err


def play(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    out = tmp_path / "out"
    assert main(["eval", *arguments, "--out", str(out)]) == 0
    output = capsys.readouterr().out
    return output, json.loads((out / "summary.json").read_text())["comparable"]


def test_a_model_under_a_protocol_and_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "replies.jsonl").write_text('"1"\n' * 99)
    model = f"scripted:{tmp_path / 'replies.jsonl'}"
    output, verdict = play(tmp_path, capsys, str(protocol(tmp_path)), "--model", model)
    assert (
        verdict in output.replace("\n", " ")
        and verdict.startswith("protocol mine, task ids ")
        and "not comparable" not in verdict
    )
    options = json.loads((tmp_path / "out" / "manifest.json").read_text())["options"]
    assert options["protocol"]["prompt_hash"] == text_hash(PROMPT) and options["temperature"] == 0.5
    (tmp_path / "b").mkdir()
    output, verdict = play(tmp_path / "b", capsys, "guessnumber", "--model", model, "--tasks", "1", "--prompt", "bare")
    assert verdict == "no protocol: not comparable with published numbers" and verdict in output


def test_fewer_games_than_the_protocols_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "pick_cool_then_place_in_recep-Apple-None-Shelf-1"
    for split in ("train", "valid_seen", "valid_unseen"):
        write_game(tmp_path / split / kind / "trial_T1")
    (tmp_path / "replies.jsonl").write_text('"<think>x</think><action>look</action>"\n' * 50)
    model = ["--model", f"scripted:{tmp_path / 'replies.jsonl'}", "--env.data", str(tmp_path)]
    _, verdict = play(tmp_path, capsys, "alfworld@agentgym", *model)
    assert verdict == "protocol alfworld@agentgym, with 1 of its 134 tasks: not comparable with published numbers"


def test_no_model_and_faults_are_not_comparable() -> None:
    options = {"protocol": {"name": "p", "tasks": 1}}
    good = Episode("me/Env-v0", "a", "a", 0, success=True, reason="success")
    bad = Episode("me/Env-v0", "a", "a", 1, success=None, reason="engine")
    assert "without a model: not comparable" in comparability(options, [good])
    options["model"] = "hf:x"
    verdict = comparability(options, [good, bad])
    assert verdict.startswith("infrastructure errors ended 50.0% of 2 episodes of me/Env-v0") and "not comparable" in verdict
    many = [*[good] * 99, bad]  # no more than 1 %
    assert "1 episodes left out for infrastructure errors: not comparable" in comparability(options, many)
    assert "more than 1%" in comparability({}, [*many, bad]) and "more than 1%" not in comparability({}, many)
    assert "not comparable" not in comparability(options, [good])
    capped = options | {"envs": {"harbor": {"options": {"max_cpus": 1}, "caps": ["max_cpus"]}, "b": {"options": {}}}}
    assert comparability(capped, [good]) == "capped by max_cpus of harbor: not comparable with published numbers"
    counted = options | {"envs": {"b": {"unlike": "counts turns"}, "c": {}}}
    assert comparability(counted, [good]) == "b counts turns: not comparable with published numbers"


PUBLISHED = {
    "rlvr/ScienceWorld-v0": {"preset": "published"},
    "rlvr/BabyAI-v0": {"preset": "published"},
    "rlvr/TextWorld-v0": {"horizon": 50},
    "rlvr/MiniWoB-v0": {"horizon": 10},
    "rlvr/ALFWorld-v0": {},
    "rlvr/WebShop-v0": {},  # the site limits nothing: the 15 steps are a protocol's own
    "rlvr/Desk-v0": {},
}
"""Options with which an episode is counted and limited as in the package: see the side-by-side tests of each."""
OTHERWISE = {
    "rlvr/ScienceWorld-v0": ({}, {"moves": 50}, {"preset": "published", "horizon": 100}),
    "rlvr/BabyAI-v0": ({}, {"preset": "published", "horizon": 20}),
    "rlvr/TextWorld-v0": ({}, {"difficulty": 2}),
    "rlvr/MiniWoB-v0": ({"preset": "all"}, {"names": "choose-date"}, {"horizon": 20}),
    "rlvr/ALFWorld-v0": ({"horizon": 30},),
    "rlvr/Desk-v0": ({"data": "tau2"}, {"data": "tau2", "horizon": 200}),
}


@pytest.mark.parametrize("env", sorted({*PUBLISHED, *OTHERWISE}))
def test_each_environment_says_where_its_steps_are_not_the_published_ones(env: str) -> None:
    kind = class_of(env)
    assert kind is not None
    if env in PUBLISHED:
        assert kind.unlike_published(PUBLISHED[env]) == ""
    for options in OTHERWISE.get(env, ()):
        assert kind.unlike_published(options), options


def test_an_evaluation_tells_it_in_summary_manifest_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("minigrid")
    words = ["eval", "rlvr/BabyAI-v0", "--policy", "random", "--tasks", "1", "--out", str(tmp_path / "e")]
    assert main(words) == 0
    sentence = "rlvr/BabyAI-v0 does not limit episodes as the package does"
    assert sentence in capsys.readouterr().out.replace("\n", " ")
    assert json.loads((tmp_path / "e" / "summary.json").read_text())["comparable"].startswith(sentence)
    assert "unlike" in json.loads((tmp_path / "e" / "manifest.json").read_text())["options"]["envs"]["rlvr/BabyAI-v0"]
    assert "does not limit episodes as the package does" in (tmp_path / "e" / "summary.md").read_text()
