"""Every other command with a stranger's folder: whatever stands in it, nothing of it is imported and nothing printed raw."""

import io
import json
import sys
from pathlib import Path

import pytest

from agentgym import Episode, Turn
from agentgym.cli import COMMANDS, main
from agentgym.retrieval.folder import ANALYSER, FORMAT

EVIL = "evil_module"
HOSTILE = "a'b; touch pwned $(touch pwned) `touch pwned` \x1b]0;owned\x07 \u202e\n#"
RUN = f'env = "{EVIL}:ns/X-v0"\nworkers = 3\n[env_options]\nbackend = "process"\nbackend_options = {{unsafe = true}}\n'
WORDS = {
    "init-policy": ["init-policy", "folder", "--out", "p"],
    "init-policy into it": ["init-policy", "guessnumber", "--out", "folder"],
    "qualify": ["qualify", "tinker:http://127.0.0.1:1", "--model", "folder"],
    "check": ["check", "folder"],
    "check a certificate": ["check", "guessnumber", "--verify", "folder/certificate.json"],
    "check harbor tasks": ["check", "harbor:folder"],
    "play": ["play", "folder", "--policy", "expert"],
    "play data": ["play", "math", "--policy", "random", "--env.data", "folder/math.jsonl", "--split", "test"],
    "play code": ["play", "code", "--policy", "oracle", "--env.data", "folder/code.jsonl", "--split", "test"],
    "play webshop": ["play", "webshop", "--policy", "expert", "--env.data", "folder"],
    "play alfworld": ["play", "alfworld", "--policy", "expert", "--env.data", "folder"],
    "play sql": ["play", "sql", "--policy", "expert", "--env.data", "folder"],
    "play desk": ["play", "desk", "--policy", "oracle", "--env.data", "folder"],
    "play swe": ["play", "swe", "--policy", "oracle", "--env.data", "folder/rows.jsonl"],
    "train": ["train", "--resume", "folder"],
    "plan": ["train", "household-1.5b", "--plan", "--model", "folder"],
    "view": ["view", "folder"],
    "view of episodes": ["view", "folder/episodes.jsonl"],
    "watch": ["watch", "folder", "--terminal"],
    "compare": ["compare", "folder", "folder"],
    "compare checkpoints": ["compare", "folder/checkpoints", "folder"],
    "curves": ["curves", "folder", "folder", "--metric", "step"],
    "leaderboard": ["leaderboard", "folder", "folder", "--out", "b.html"],
    "import": ["import", "folder", "--out", "i.jsonl"],
    "export": ["export", "folder", "--out", "e.parquet"],
    "index": ["index", "folder/rows.jsonl", "folder"],
    "index dense": ["index", "folder/rows.jsonl", "new", "--kind", "dense", "--encoder", "folder"],
    "serve retriever": ["serve", "retriever", "--index", "folder", "--port", "0"],
    "serve env": ["serve", "env", "folder", "--port", "0"],
    "serve env of data": ["serve", "env", "search", "--port", "0", "--env.data", "folder/rows.jsonl"],
    "serve mcp": ["serve", "mcp", "folder"],
    "serve mcp of data": ["serve", "mcp", "math", "--env.data", "folder/math.jsonl", "--task", HOSTILE],
    "serve gateway": ["serve", "gateway", "--model", "folder", "--port", "0"],
    "swe make": ["swe", "make", "folder", "--out", "t.jsonl", "--count", "1"],
    "swe predictions": ["swe", "predictions", "folder"],
    "swe score": ["swe", "score", "folder/episodes.jsonl", "--data", "folder/rows.jsonl"],
    "sft": ["sft", "folder", "--model", "folder"],
    "package": ["package", "folder", "--for", "openenv", "--out", "pk"],
    "doctor": ["doctor", "--json"],
    "envs": ["envs", "folder"],
    "eval": ["eval", "guessnumber", "--model", "folder", "--tasks", "1"],
    "rescore": ["rescore", "folder", "--rewards", "length", "--reward.budget", "5", "--out", "y"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is a run, an evaluation, a model, an index, a package and a data set at once, all hostile."""
    (tmp_path / f"{EVIL}.py").write_text("from pathlib import Path\nPath(__file__).with_name('pwned').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = tmp_path / "folder"
    (place / "checkpoints" / "step-0001").mkdir(parents=True)
    touch = f"open({str(tmp_path / 'pwned')!r}, 'w')\n"
    for name in ("conftest.py", "setup.py", "sitecustomize.py", "__init__.py", "app.py", "train.py"):
        (place / name).write_text(touch)
    auto = {name: f"{EVIL}.X" for name in ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")}
    model = {"model_type": EVIL, "auto_map": auto, "trust_remote_code": True, "architectures": [f"{EVIL}:X"]}
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        (place / name).write_text(json.dumps(model))
    (place / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": f"{EVIL}.Module"}]))
    (place / "config.toml").write_text(RUN)
    (place / "folder.toml").write_text(RUN)
    (place / "task.toml").write_text(f"[agent]\nimport_path = '{EVIL}:X'\n")
    options = {
        "envs": {f"{EVIL}:ns/X-v0": {"options": {"x": HOSTILE}}},
        "model": f"{EVIL}:E",
        "policy": HOSTILE,
        "attempts": 1,
    }
    (place / "manifest.json").write_text(json.dumps({"format": 1, "options": options, "sessions": []}))
    (place / "summary.json").write_text(json.dumps({"suite": HOSTILE, "envs": {}}))
    (place / "certificate.json").write_text(json.dumps({"env": f"{EVIL}:ns/X-v0", "options": {"x": HOSTILE}, "checks": []}))
    index = {"format": FORMAT, "analyser": ANALYSER, "kind": f"{EVIL}:Index", "encoder": "folder"}
    (place / "index.json").write_text(json.dumps({**index, "documents": 1, "corpus": {}}))
    (place / "metrics.jsonl").write_text(json.dumps({"step": 1, "phase": HOSTILE, "env": f"{EVIL}:x"}) + "\n")
    (place / "math.jsonl").write_text(json.dumps({"question": HOSTILE, "answer": "1", "split": "test"}) + "\n")
    code = {"task_id": "a/0", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": f"    import {EVIL}\n"}
    (place / "code.jsonl").write_text(json.dumps({**code, "test": f"def check(f):\n    import {EVIL}\n"}) + "\n")
    row = {
        "question": HOSTILE,
        "answer": f"{EVIL}:x",
        "env": f"{EVIL}:ns/X-v0",
        "golden_answers": ["x"],
        "hidden": [HOSTILE],
    }
    (place / "rows.jsonl").write_text(json.dumps(row) + "\n")
    turn = Turn(HOSTILE, action=HOSTILE, text=HOSTILE, valid=True, messages=[{"role": "user", "content": HOSTILE}])
    episode = Episode(f"{EVIL}:ns/X-v0", HOSTILE, f"0/{HOSTILE}", 1, turns=[turn], success=True)
    episode.reason = "success"
    (place / "episodes.jsonl").write_text(episode.to_json() + "\n")
    (place / "checkpoints" / "step-0001" / "trainer.pt").write_bytes(f"c{EVIL}\nX\n.".encode())
    return place


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_nothing_of_a_strangers_folder_is_run(words: list[str], folder: Path, capfd, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))  # for what would ask
    try:
        code = main(words)
    except SystemExit as error:  # of argparse
        code = error.code
    output = "".join(capfd.readouterr())
    try:
        assert EVIL not in sys.modules and not (folder.parent / "pwned").exists(), output
        assert (
            "\x1b]0;owned" not in output
            and "\u202e" not in output
            and ("Traceback" not in output or "Logging error" in output)
        )
        assert "no flag" not in output and "usage:" not in output, output
        assert code in (0, 1, 2)
    finally:
        sys.modules.pop(EVIL, None)
    for page in folder.parent.rglob("*.html"):
        assert "\x1b" not in page.read_text(encoding="utf-8")


def test_every_command_is_tried_with_it() -> None:
    tried = {words[0] for words in WORDS.values()}
    assert {*COMMANDS} - tried == {"new", "completion"}  # which read no folder
