"""A model's folder may be a stranger's: what it names is neither fetched, imported nor read outside it."""

import json
import sys
from pathlib import Path

import pytest

from agentgym.engines.model_files import check_files
from agentgym.errors import BadConfig, BadData
from agentgym.retrieval.encoder import Encoder

CODE = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nclass Own:\n    pass\n"


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..\\b", 3])
def test_weights_outside_the_folder_are_refused(tmp_path: Path, name: object):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": name}}))
    with pytest.raises(BadData, match="expected the name of a file in the same folder"):
        check_files(tmp_path)


@pytest.mark.parametrize(
    "config",
    [{"attn_implementation": "stranger/kernel"}, {"text_config": {"_attn_implementation": "stranger/kernel@v1:fn"}}],
)
def test_compiled_code_of_a_hub_is_refused(tmp_path: Path, config: dict):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadData, match="compiled code of a hub"):
        check_files(tmp_path)


def test_ordinary_and_damaged_folders_pass(tmp_path: Path):
    check_files(tmp_path)
    check_files("owner/name-of-a-hub")
    (tmp_path / "config.json").write_text('{"attn_implementation": "sdpa", "_name_or_path": "a/b"}')
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
    check_files(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)  # the library that loads it says what is wrong
    check_files(tmp_path)


@pytest.mark.parametrize("kind", ["model", "tokenizer"])
def test_code_beside_the_weights_does_not_run(tmp_path: Path, kind: str):
    """`auto_map` is how a folder of transformers names its own code."""
    weights = pytest.importorskip("agentgym.engines.hf.weights")
    (tmp_path / "own.py").write_text(CODE)
    refs = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own", None]}
    model = {"model_type": "own" if kind == "model" else "gpt2", "auto_map": refs if kind == "model" else {}}
    (tmp_path / "config.json").write_text(json.dumps(model))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Own", "auto_map": refs}))
    with pytest.raises(BadConfig, match="cannot be loaded"):
        weights.load_model(str(tmp_path), None, "cpu", None)
    assert not list(tmp_path.rglob("ran")) and not any("own" in name.split(".") for name in sys.modules)


def test_an_encoder_is_made_of_classes_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for content in ([{"idx": 0, "name": "0", "path": "", "type": "own.Own"}], [{"name": "0"}], 3):
        (tmp_path / "modules.json").write_text(json.dumps(content))
        with pytest.raises(BadData, match=r"modules\.json"):
            Encoder(str(tmp_path))
    assert "own" not in sys.modules and not (tmp_path / "ran").exists()
