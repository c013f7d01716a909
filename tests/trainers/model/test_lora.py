"""LoRA: fresh adapters change nothing, they alone learn, the reference is the model without them, and runs go on exactly."""

import json
import signal

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from adapted import adapted, config
from forked import Program
from peft import PeftModel
from small_runs import curve, episodes
from tiny_rows import tiny_model, token_episodes
from transformers import AutoModelForCausalLM
from whole_runs import CHILD, small

import agentgym
from agentgym.cli import main
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import groups
from agentgym.errors import BadConfig, BadData
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config, to_toml
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import BaseScorer, Scorer, TrainedModel, imitate
from agentgym.trainers.losses.policy import policy_loss
from agentgym.trainers.model import forward
from agentgym.trainers.model.logprobs import policy_logprobs
from agentgym.trainers.model.lora import ALPHA, ATTENTION, TARGETS, add_adapters
from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy, save_policy
from agentgym.trainers.run.preflight import check_run

LORA = {"lora_rank": 4, "lora_alpha": 16, "sft_muon": False}


def batches(n=6, tokens=64):
    segments = build(*token_episodes(n=n))
    return pack(segments, token_weights(segments), tokens)


def test_fresh_adapters_change_nothing_to_the_last_bit():
    model, base = adapted(fill=False), tiny_model()
    ids = torch.randint(0, 61, (2, 9))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, base(ids).logits)


@pytest.mark.parametrize("targets", [("k_proj",), ATTENTION, TARGETS])
def test_scores_equal_those_of_the_merged_weights(targets):
    model = adapted(lora_targets=targets)
    assert not forward.supported(model), "the fast pass would leave the adapters out"
    merged = PeftModel.from_pretrained(tiny_model(), saved(model)).merge_and_unload()
    with torch.no_grad():
        for batch in batches():
            ours, theirs = (policy_logprobs(m, batch, 0.7).logprobs for m in (model, merged))
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
            assert (ours - policy_logprobs(tiny_model(), batch, 0.7).logprobs).abs().max() > 0.05


def saved(model):
    import tempfile

    folder = tempfile.mkdtemp()
    model.save_pretrained(folder)
    return folder


def test_the_reference_is_the_model_without_adapters_and_leaves_them_on():
    model, base = adapted(), tiny_model()
    base.config.hidden_act, plain = "silu", base
    with torch.no_grad():
        for batch in batches():
            want = plain.model(input_ids=batch.ids, use_cache=False).last_hidden_state.flatten(0, 1)[batch.places]
            want = torch.log_softmax(plain.lm_head(want) / 0.7, -1).gather(-1, batch.targets[:, None])[:, 0]
            before = Scorer(model, 0.7)(batch).logprobs
            assert torch.equal(BaseScorer(model, 0.7, "rows")(batch).logprobs, want)
            torch.testing.assert_close(BaseScorer(model, 0.7)(batch).logprobs, want, atol=1e-5, rtol=0)
            assert torch.equal(Scorer(model, 0.7)(batch).logprobs, before)
            assert (before - want).abs().max() > 0.05
    assert [p.requires_grad for n, p in model.named_parameters() if "lora_" in n] == [True] * 28
    with pytest.raises(RuntimeError, match="boom"):
        BaseScorer(model, 0.7)(Broken())
    assert not model.model.layers[0].self_attn.q_proj.disable_adapters, "a failure left the adapters off"


@pytest.mark.parametrize("method", ["split", "sdpa", "rows"])
def test_a_fresh_adapter_is_its_reference_however_rows_share_a_pass(method):
    """Both score by one model, which has one way to attend: the reference must not choose another."""
    model = adapted(fill=False)
    scorer = Scorer(model, 0.7, method)
    reference = BaseScorer(model, 0.7, scorer.method)
    with torch.no_grad():
        for batch in batches():
            assert torch.equal(scorer(batch).logprobs, reference(batch).logprobs)


class Broken:
    temperatures = None

    @property
    def ids(self):
        raise RuntimeError("boom")


def test_only_adapters_have_a_gradient_and_are_optimized():
    model = adapted()
    for batch in batches():
        policy_loss(policy_logprobs(model, batch, 0.7), batch)[0].backward()
    with_gradient = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert with_gradient == {name for name, _ in model.named_parameters() if "lora_" in name}
    (adam,) = optimizers(model, 1e-3, muon=False)
    assert sum(p.numel() for group in adam.param_groups for p in group["params"]) == sum(
        p.numel() for name, p in model.named_parameters() if "lora_" in name
    )


def learner(model, run):
    accelerator = Accelerator(cpu=True)
    scorer = Scorer(model, run.temperature)
    return TrainedModel(accelerator, scorer, optimizers(model, run.lr, muon=False), BaseScorer(model, run.temperature))


def test_what_was_rewarded_becomes_likelier_and_the_base_stays():
    """One group of a task, half of it rewarded: its tokens rise against the others', in a model whose base is unmoved."""
    model = adapted(fill=False)
    run = config(lr=5e-3, minibatches=1, credit="grpo", batch_tokens=10_000, kl=0.01)
    made, _ = token_episodes(n=8)
    for i, episode in enumerate(made):
        episode.task_id = episode.group_id = "t"
        episode.success = bool(i % 2)
        episode.pay_last(float(i % 2), {})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}

    def difference():
        segments = build(made)
        likely = [[], []]
        with torch.no_grad():
            for batch in pack(segments, token_weights(segments), 1):
                likely[made[segments[batch.segments[0]].episode].success] += policy_logprobs(model, batch).logprobs.tolist()
        return np.mean(likely[1]) - np.mean(likely[0])

    start, learning = difference(), learner(model, run)
    for step in range(6):
        found = reinforce(learning, groups(made), resolve("grpo"), run, step)
        assert (found["reference_kl"] > 1e-6) == (step > 0)
    assert difference() > start + 0.5
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name in before if "lora_" in name}


def test_imitation_trains_adapters_too():
    model, run = adapted(fill=False), config(lr=1e-2)
    made, _ = token_episodes(n=4)
    learning = learner(model, run)
    losses = [imitate(learning, made, run)["nll"] for _ in range(10)]
    assert losses[-1] < losses[0] - 0.2


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model that can play a little: made by an SFT warm start of every weight."""
    folder = tmp_path_factory.mktemp("base")
    size = PolicySize(width=64, layers=2, heads=2, feed_forward=96, vocabulary=400, context=512)
    init_policy("rlvr/GuessNumber-v0", folder / "init", size=size, episodes=100)
    train(small(folder / "sft", model=str(folder / "init"), sft_episodes=60, steps=0, test_tasks=1))
    (newest,) = sorted((folder / "sft" / "checkpoints").glob("step-*"))[-1:]
    newest.rename(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, base):
    folder = tmp_path_factory.mktemp("lora")
    return folder, train(small(folder / "run", model=str(base), sft_episodes=0, **LORA))


def newest(run):
    return sorted((run / "checkpoints").glob("step-*"))[-1]


def test_a_run_leaves_an_adapter_that_peft_and_the_engine_read(whole, base):
    adapter = newest(whole[0] / "run")
    names = {path.name for path in adapter.iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "tokenizer.json"} <= names
    assert not any(name.startswith("model") for name in names), "the base was written into a checkpoint"
    adapter_settings = json.loads((adapter / "adapter_config.json").read_text())
    assert (adapter_settings["r"], adapter_settings["lora_alpha"], adapter_settings["lora_dropout"]) == (4, 16, 0.0)
    assert adapter_settings["base_model_name_or_path"] == str(base)
    ids = torch.arange(1, 30)[None]
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), str(adapter))
    ours, _ = load_policy(adapter)
    plain, _ = load_policy(base)
    with torch.no_grad():
        want = theirs(ids).logits
        assert torch.equal(ours(ids).logits, want) and not torch.equal(plain(ids).logits, want)
        assert torch.equal(HFEngine(str(adapter)).model(ids).logits, want)
    trainable = {name for name, p in ours.named_parameters() if p.requires_grad}
    assert trainable == {name for name, _ in ours.named_parameters() if "lora_" in name}
    rows = [row for row in curve(whole[0] / "run") if row["phase"] == "rl"]
    mismatches = [row["mismatch_kl"] for row in rows]
    assert len(mismatches) == 4 and all(abs(kl) < 1e-6 for kl in mismatches), mismatches
    assert read_config(whole[0] / "run" / "config.toml").lora_targets == TARGETS


@pytest.mark.parametrize("number", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_last_digit(whole, tmp_path, base, number):
    run = small(tmp_path / "run", model=str(base), sft_episodes=0, **LORA)
    (tmp_path / "config.toml").write_text(to_toml(run))
    assert Program(CHILD, tmp_path / "config.toml", "step", number).wait() == -signal.SIGKILL
    resume(tmp_path / "run")
    assert curve(tmp_path / "run") == curve(whole[0] / "run")
    assert episodes(tmp_path / "run") == episodes(whole[0] / "run")
    mine, theirs = (load_policy(newest(run))[0].state_dict() for run in (tmp_path / "run", whole[0] / "run"))
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


class Colours(agentgym.TextEnv):
    """Name a colour; red is right. Its expert names any, so that who imitates it is right one time in four."""

    horizon = 1

    def begin(self, task):
        self.colour = task.data["colour"]
        return f"Name a colour for number {task.data['number']}."

    def act(self, action):
        return self.win("Yes.") if action.strip() == "red" else self.lose("No.")

    def oracle(self):
        yield "red"

    def expert(self):
        yield self.colour

    @staticmethod
    def generate(rng, difficulty):
        colour = ("red", "green", "blue", "white")[int(rng.integers(4))]
        return agentgym.Task(instruction="name", data={"colour": colour, "number": int(rng.integers(1000))})


@pytest.mark.long
def test_success_rises(tmp_path):
    agentgym.register("test/Colours-v0", Colours)
    env = {"env": "test/Colours-v0", "test_tasks": 0, "eval_every": 0, "horizon": (), "checkpoint_every": 100}
    size = PolicySize(width=32, layers=2, heads=2, feed_forward=64, vocabulary=300, context=64)
    init_policy("test/Colours-v0", tmp_path / "init", size=size, episodes=100)
    clean = {"sft_episodes": 320, "sft_batch": 4, "sft_noise": 0.0, "sft_invalid": 0.0, "sft_forget": 0.0}
    train(small(tmp_path / "sft", model=str(tmp_path / "init"), steps=0, **clean, **env))
    learning = {"tasks_per_step": 8, "group_size": 8, "minibatches": 1, "credit": "grpo", "credit_options": {}, "lr": 5e-3}
    start = str(newest(tmp_path / "sft"))
    train(small(tmp_path / "run", model=start, sft_episodes=0, steps=20, **LORA, **learning, **env))
    success = [row["success_train"] for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    assert np.mean(success[:2]) < 0.4 < 0.65 < np.mean(success[-2:]), success


@pytest.mark.parametrize("bare", [False, True])
def test_an_adapters_folder_is_evaluated(whole, tmp_path, capsys, bare):
    adapter = newest(whole[0] / "run")
    name = str(adapter) if bare else f"hf:{adapter}"
    command = ["eval", "guessnumber", "--model", name, "--tasks", "2", "--out", str(tmp_path / "eval")]
    assert main([*command, "--turn-tokens", "6", "--threads", "1"]) == 0, capsys.readouterr().err


def test_an_adapter_without_its_base_says_so(whole, tmp_path):
    import shutil

    adapter = tmp_path / "adapter"
    shutil.copytree(newest(whole[0] / "run"), adapter)
    adapter_settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(
        json.dumps({**adapter_settings, "base_model_name_or_path": str(tmp_path / "gone")})
    )
    with pytest.raises(BadData, match=r"base model '.*gone' is not there; put the folder"):
        load_policy(adapter)


REFUSED = [
    ({"lora_rank": 0, "lora_alpha": 8}, "lora_alpha has no effect without adapters"),
    ({"lora_rank": 0, "lora_alpha": ALPHA, "lora_targets": ("q_proj",)}, "lora_targets has no effect without adapters"),
    ({"lora_rank": -1}, "lora_rank is -1"),
    ({"lora_alpha": 0}, "lora_alpha is 0"),
    ({"lora_rank": 513, "engine": "vllm"}, "engine 'vllm' serves adapters up to rank 512"),
    ({"model": "init"}, "with model 'init'"),
    ({"muon": True}, "Set muon to false"),
    ({"sft_episodes": 8}, "Set sft_muon to false"),
    ({"sft_episodes": 8, "sft_muon": False, "kl": 0.1}, "would undo the SFT warm start"),
    ({"engine": "vllm", "weight_transport": "nccl"}, "adapters .lora_rank 4. go as a folder"),
    ({"engine": "vllm", "engine_options": {"lora_rank": 8}}, "engine.lora_rank is not an option of a run"),
    ({"lora_targets": ()}, "lora_targets is empty"),
    ({"lora_targets": ("q_proj", "embed_tokens")}, "'embed_tokens', which engines cannot serve"),
    ({"lora_targets": ("lm_head",)}, "'lm_head', which engines cannot serve"),
    ({"lora_targets": ("input_layernorm",)}, "'input_layernorm', which engines cannot serve"),
    ({"lora_targets": ("gate",)}, "'gate', which engines cannot serve"),
    ({"lora_targets": (".*",)}, "expected names of modules"),
    ({"lora_targets": ("q_proj\x1b[31m",)}, r"'q_proj\\x1b\[31m'; expected names"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_trained_or_served_is_refused(changes, message):
    with pytest.raises(BadConfig, match=message):
        config(**changes)


def test_adapters_that_nothing_would_train_are_refused():
    with pytest.raises(BadConfig, match="nothing trains the adapters"):
        check_run(config(steps=0), fresh=False)


def test_targets_are_held_to_the_models_folder(tmp_path, base):
    with pytest.raises(BadConfig, match=r"'qkv_proj', but .* has no such layer; it has down_proj gate_proj k_proj"):
        config(model=str(base), lora_targets=("qkv_proj",))
    init_policy("rlvr/GuessNumber-v0", tmp_path / "moe", size=PolicySize(32, 1, 2, 32, 300, 128, experts=4), episodes=20)
    with pytest.raises(BadConfig, match=r"experts of a mixture .* Set lora_targets to k_proj o_proj q_proj v_proj"):
        config(model=str(tmp_path / "moe"))
    config(model=str(tmp_path / "moe"), lora_targets=ATTENTION)
    (tmp_path / "moe" / "model.safetensors").write_bytes(b"\xff" * 64)
    config(model=str(tmp_path / "moe"))  # the damage is told when the model is loaded


def test_an_adapter_is_no_model_to_start_from(whole):
    adapter = str(newest(whole[0] / "run"))
    for rank in (0, 4):
        with pytest.raises(BadConfig, match="is an adapter; a run starts from a model"):
            TrainConfig(model=adapter, lora_rank=rank)


def test_names_that_match_nothing_are_refused_where_no_folder_could_tell():
    with pytest.raises(BadConfig, match="'qkv_proj', but some/where has no such module"):
        add_adapters(tiny_model(), config(lora_targets=("q_proj", "qkv_proj")))
    with pytest.raises(BadConfig, match=r"model\.layers\.0\.mlp of some/where is Qwen3MLP; expected a linear layer"):
        add_adapters(tiny_model(), config(lora_targets=("q_proj", "mlp")))


def test_a_mixture_trains_adapters_of_its_attention():
    model = adapted(moe=True, lora_targets=ATTENTION)
    for batch in batches():
        policy_loss(policy_logprobs(model, batch, 0.7), batch)[0].backward()
    assert {name.split(".")[4] for name, p in model.named_parameters() if p.grad is not None} == set(ATTENTION)


def test_the_adapter_is_small_on_disk(tmp_path):
    model = adapted()
    save_policy(model, load_nothing(), tmp_path / "adapter")
    numbers = sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").stat().st_size < 4 * numbers + 8000


def load_nothing():
    class Tokenizer:
        def save_pretrained(self, folder):
            del folder

    return Tokenizer()
