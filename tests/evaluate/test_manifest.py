"""What a manifest says about the model and the checkout."""

import subprocess
from pathlib import Path

from agentgym.core import provenance
from agentgym.evaluate import manifest


def test_a_changed_weight_changes_the_fingerprint(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    weights = bytearray(3 * manifest.EDGE)
    (tmp_path / "model.safetensors").write_bytes(weights)
    before = manifest.fingerprint(tmp_path)
    assert manifest.fingerprint(tmp_path) == before
    weights[-1] = 1
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert manifest.fingerprint(tmp_path) != before


def test_a_renamed_file_changes_the_fingerprint(tmp_path: Path):
    (tmp_path / "a").write_text("x")
    before = manifest.fingerprint(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert manifest.fingerprint(tmp_path) != before


def test_hardware_is_plain_and_has_cores():
    found = provenance.hardware()
    assert found["cores"] >= 1
    assert found["processor"]


def test_json_is_replaced_whole(tmp_path: Path):
    path = tmp_path / "a.json"
    provenance.write_json(path, {"a": 1})
    provenance.write_json(path, {"a": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_checkout_without_any_commit_has_none(tmp_path: Path, monkeypatch):
    def git(*words):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    package = tmp_path / "agentgym"
    (package / "core").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(provenance, "__file__", str(package / "core" / "provenance.py"))
    git("init")
    assert provenance.commit.__wrapped__() is None
    git("add", ".")
    assert provenance.commit.__wrapped__() is None
    git("commit", "-m", "first")
    head = provenance.commit.__wrapped__()
    assert head and len(head) == 40
    (package / "__init__.py").write_text("changed = True")
    assert provenance.commit.__wrapped__() == f"{head}+changes"
