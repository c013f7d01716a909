"""Each recipe of a pretrained model begins: its environment, agent and loss, with a tiny chat model on the CPU."""

import json
import math

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.cli import main
from agentgym.planner.stand_in import stand_in
from agentgym.trainers.config.recipe_files import read_recipe, recipes
from agentgym.trainers.model.policy import save_policy

PRETRAINED = [name for name in recipes() if read_recipe(name).model != "init"]
FEW = "--steps 1 --tasks-per-step 2 --group-size 2 --minibatches 1 --turn-tokens 12 --context-tokens 6000 --horizon 2"
FEW += " --concurrency 4 --eval-every 0 --test-tasks 1 --select keep --precision fp32 --engine hf --kl 0"


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    """Return the folder of a model of two layers whose tokenizer has a chat template of the usual kind."""
    tokenizer = stand_in([("rlvr/Household-v0", {})], 0)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = Qwen2Config(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=8192, **shape, **ends)
    return save_policy(Qwen2ForCausalLM(config), tokenizer, tmp_path_factory.mktemp("chat") / "model")


def test_there_are_six():
    assert PRETRAINED == ["code-7b", "household-1.5b", "math-1.5b", "search-3b", "sql-1.5b", "swe-7b"]


@pytest.mark.long
@pytest.mark.parametrize("name", PRETRAINED)
def test_a_recipe_begins(chat_model, tmp_path, capsys, name):
    words = ["train", name, "--model", str(chat_model), "--out", str(tmp_path / "run"), *FEW.split()]
    code = main(words)
    said = capsys.readouterr()
    assert code == 0, said.err
    (row,) = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert row["phase"] == "rl" and math.isfinite(row["reward"])
    episodes = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert episodes and not [e for e in episodes if e["reason"] in ("timeout", "crash", "engine")]
