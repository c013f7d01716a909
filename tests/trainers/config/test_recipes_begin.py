"""Each recipe of a pretrained model begins: its environment, agent and loss, with a tiny chat model on the CPU."""

import json
import math

import pytest
import shop_files
import torch
from household_files import write_game
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.cli import main
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.evaluate.suite import resolve
from agentgym.planner.stand_in import stand_in
from agentgym.trainers.config.recipe_files import read_recipe, recipes
from agentgym.trainers.credit.interface import resolve as resolve_credit
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


def test_there_are_eight():
    games = ["alfworld-1.5b", "code-7b", "household-1.5b", "math-1.5b", "search-3b", "sql-1.5b", "swe-7b", "webshop-1.5b"]
    assert games == PRETRAINED


@pytest.fixture
def data(tmp_path):
    """Return the flags of the recipes that play data of others: files of our own, in the published layouts."""
    for split in ("train", "valid_seen", "valid_unseen"):
        write_game(tmp_path / "alfworld" / split / "pick_cool_then_place_in_recep-Apple-None-Shelf-1" / "trial_T1")
    (tmp_path / "shop").mkdir()
    shop_files.write(tmp_path / "shop", 400)
    folders = {"alfworld-1.5b": tmp_path / "alfworld", "webshop-1.5b": tmp_path / "shop"}
    return {name: ["--env.data", str(folder)] for name, folder in folders.items()}


@pytest.mark.parametrize(
    ("name", "twin"),
    [("alfworld-1.5b", "alfworld@verl-agent"), ("webshop-1.5b", "webshop@verl-agent"), ("search-3b", "search@search-r1")],
)
def test_a_recipe_plays_by_the_prompt_and_limits_of_its_protocol(name, twin):
    config, suite = read_recipe(name), resolve(twin)
    assert (config.env,) == suite.envs and config.prompt == twin == suite.prompt and config.agent == suite.agent
    assert config.turn_tokens == suite.turn_tokens and config.horizon in ((), (suite.horizon,))
    own = {"corpus", "questions", "horizon", "top_k"}  # the documents and questions; Search-R1's limits are its defaults
    assert {k: v for k, v in suite.env_options(config.env).items() if k not in own} == {
        "feedback": "genuine", **config.env_options
    }  # fmt: skip
    assert config.test_temperature == suite.temperature


@pytest.mark.parametrize(("name", "norm"), [("alfworld-1.5b", "std"), ("webshop-1.5b", "mean")])
def test_a_tenth_of_the_published_penalty_and_scale_is_the_published_update(name, norm):
    """verl-agent pays 10 for success and takes 0.1 for a reply without an action; here it is 1, and a tenth of the rest."""
    config = read_recipe(name)
    options = {"norm": norm, "penalty": 0.01, "punish": "parsed"}
    assert (config.credit, config.credit_options) == ("gigpo_reference", options)

    def group(success):
        episodes = []
        for attempt, paid in enumerate((success, 0.0, 0.0)):
            turns = [Turn("o", parsed=(attempt, k) != (1, 0), output_ids=[1]) for k in range(2)]
            episodes.append(Episode("e", "t", "g", 0, attempt=attempt, turns=turns))
            episodes[-1].pay_last(paid, {})
        return Group("t", "agent", episodes)

    ours = resolve_credit("gigpo_reference", **options)([group(1.0)])[0]
    theirs = resolve_credit("gigpo_reference", **{**options, "penalty": 0.1})([group(10.0)])[0]
    scale = 1.0 if norm == "std" else 10.0
    for mine, published in zip(ours, theirs, strict=True):
        assert (scale * mine).tolist() == pytest.approx(published.tolist(), rel=1e-4)
    assert ours[1][0] != ours[1][1]  # the punished turn of the same episode
    published = {"kl": 0.01, "entropy_bonus": 0.001}  # which scale with the loss, as the bound of its gradient, 1, does
    assert {key: getattr(config, key) * scale for key in published} == pytest.approx(published)
    assert config.grad_clip * scale == 1.0


@pytest.mark.long
@pytest.mark.parametrize("name", PRETRAINED)
def test_a_recipe_begins(chat_model, data, tmp_path, capsys, name):
    words = ["train", name, "--model", str(chat_model), "--out", str(tmp_path / "run"), *FEW.split(), *data.get(name, [])]
    code = main(words)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    (row,) = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert row["phase"] == "rl" and math.isfinite(row["reward"])
    episodes = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    assert episodes and not [e for e in episodes if e["reason"] in ("timeout", "crash", "engine")]
