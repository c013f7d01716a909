"""What a manifest says about the model and the checkout."""

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
