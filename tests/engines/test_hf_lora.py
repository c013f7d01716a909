"""LoRA in the hf engine: adapters are read apart from the weights, switched with them, and loaded from their folder."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import transformers
from peft import LoraConfig, PeftModel

from agentgym.engines import Sampling, adapters
from agentgym.engines.hf import slots as hf_slots
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.hf.slots import Row, SlotModel, unsupported
from agentgym.errors import BadConfig, BadData

EVERYWHERE = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TARGETS = [["k_proj"], ["q_proj", "v_proj", "down_proj"], EVERYWHERE, [*EVERYWHERE, "lm_head"]]
PROMPT = [256, *range(40, 90), 10]


def adapt(model: Any, targets: list[str], seed: int = 5, **options: Any) -> Any:
    """Put a random adapter that changes much into a model."""
    torch.manual_seed(seed)
    model.add_adapter(LoraConfig(r=4, lora_alpha=6, target_modules=targets, task_type="CAUSAL_LM", **options))
    fill(model, seed)
    return model


def pretrained(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def fill(model: Any, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)


def library(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("targets", TARGETS, ids=len)
@pytest.mark.parametrize("kind", ["Qwen3", "Llama", "Qwen2"])
def test_fast_path_equals_the_librarys_forward(kind: str, targets: list[str], fuse: bool, monkeypatch: Any) -> None:
    if not fuse:
        monkeypatch.setattr(hf_slots, "FUSE_BELOW", 0)
    biased = {"attention_bias": True} if kind == "Llama" else {}
    plain, model = tiny.model(kind, **biased), adapt(tiny.model(kind, **biased), targets)
    ids = np.random.default_rng(0).integers(0, 272, 40).tolist()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert unsupported(model) is None
    slots, want = SlotModel(model, 2, 64), library(model, ids)
    assert (want - library(plain, ids)).abs().max() > 0.1, "an adapter that changes nothing tests nothing"
    got = [slots.forward([Row(0, 0, ids[:30])]), *(slots.forward([Row(0, i, [ids[i]])]) for i in range(30, 40))]
    torch.testing.assert_close(torch.cat(got), want[29:], atol=2e-5 * float(want.abs().max()), rtol=1e-4)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), f"{name} was changed"
    model.disable_adapters()
    slots.refresh()
    off = slots.forward([Row(1, 0, ids)])[0]
    torch.testing.assert_close(off, library(plain, ids)[-1], atol=2e-5 * float(want.abs().max()), rtol=1e-4)


def test_what_is_more_than_plain_lora_takes_the_generic_path() -> None:
    assert unsupported(adapt(tiny.model(), ["k_proj"], use_dora=True)) is not None
    assert unsupported(adapt(tiny.model(), ["embed_tokens"])) is not None
    only_last = adapt(tiny.model(), ["k_proj"], use_dora=True, layers_to_transform=[1])
    assert unsupported(only_last) is not None


def test_new_adapters_forget_the_caches() -> None:
    model = adapt(tiny.model(), EVERYWHERE)

    async def play() -> list[list[float]]:
        engine = HFEngine(model, slots=2)
        found: list[list[float]] = []
        for version in (1, 2):
            done = await engine.generate(PROMPT, Sampling(temperature=0, max_tokens=8), "one")
            logprobs = library(model, [*PROMPT, *done.ids]).log_softmax(-1)[len(PROMPT) - 1 : -1]
            found.append((logprobs.gather(-1, torch.tensor(done.ids)[:, None])[:, 0] - torch.tensor(done.logprobs)).tolist())
            fill(model, 77)
            await engine.load_weights(model.named_parameters(), version)
        return found

    for gaps in asyncio.run(play()):
        assert len(gaps) == 8 and max(map(abs, gaps)) < 1e-4


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return a base model's folder, and that of an adapter for it."""
    base, path = tiny.folder(tmp_path / "base", hostile=False), tmp_path / "adapter"
    model = adapt(pretrained(base), EVERYWHERE)
    model.save_pretrained(path)
    (path / "tokenizer.json").write_bytes((base / "tokenizer.json").read_bytes())
    (path / "tokenizer_config.json").write_bytes((base / "tokenizer_config.json").read_bytes())
    return base, path


def test_an_adapters_folder_is_a_model_to_the_engine(folders: tuple[Path, Path]) -> None:
    base, path = folders
    plain = pretrained(base)
    want = library(PeftModel.from_pretrained(plain, str(path)), PROMPT).log_softmax(-1)
    engine = HFEngine(str(path))
    got = asyncio.run(engine.score(PROMPT))
    assert got == pytest.approx(want[:-1].gather(-1, torch.tensor(PROMPT[1:])[:, None])[:, 0].tolist(), abs=1e-4)
    assert not any(parameter.requires_grad for name, parameter in engine.model.named_parameters() if "lora" in name)


def edit(path: Path, **changes: Any) -> None:
    file = path / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("/nowhere/at/all", "'/nowhere/at/all' is not there"),
        ("https://example.org/model", "is not there"),
        ("../no-such-folder", "is not there"),
        ("/", "not a complete model folder"),
        ("a\nb\x1b[31m", "is not there"),
        ("some\0where", "is not there"),
        ("", "its base model is ''"),
        (None, "its base model is None"),
        (["x"], "its base model is"),
        ("no-such-owner/no-such-model", "nothing is fetched for an adapter"),
    ],
)
def test_a_base_that_is_gone_remote_or_hostile_is_named_and_not_fetched(
    folders: tuple[Path, Path], base: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    tried: list[Any] = []

    def refuse(*args: Any, **_: Any) -> None:
        tried.append(args)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    edit(folders[1], base_model_name_or_path=base)
    with pytest.raises(BadConfig, match="base_model_name_or_path") as caught:
        HFEngine(str(folders[1]))
    assert message in str(caught.value) and "\x1b" not in str(caught.value)
    assert not tried, "an adapter's file made us connect"


def test_other_adapters_and_damage_are_refused(folders: tuple[Path, Path]) -> None:
    path = folders[1]
    edit(path, peft_type="PREFIX_TUNING")
    with pytest.raises(BadData, match="expected a LORA adapter"):
        adapters.describe(path)
    edit(path, peft_type="LORA", base_model_name_or_path=str(path))
    with pytest.raises(BadData, match="not a complete model folder"):
        adapters.base_of(path)
    edit(path, base_model_name_or_path=str(folders[0]), r=8)
    with pytest.raises(BadData, match=r"does not fit|cannot be put"):
        adapters.load_adapted(path, torch.float32)
    edit(path, r=4)
    weights = path / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(BadData, match="cannot be put"):
        adapters.load_adapted(path, torch.float32)
    weights.unlink()
    with pytest.raises(BadData, match="safetensors alone"):
        adapters.describe(path)
    (path / "adapter_config.json").write_text("[" * 100_000)
    with pytest.raises(BadData, match="cannot be read"):
        adapters.describe(path)
