"""Every field of a run refuses a bad value by name, before torch is imported; so does what a run leans on."""

import dataclasses
import subprocess
import sys
from typing import Literal, get_origin

import pytest

from agentgym.cli import main
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.config.checks import BOUNDS, FILLED, types
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.run.preflight import cautions, check_run, model_folder

KINDS = types(TrainConfig)
NUMBERS = [name for name, kind in KINDS.items() if kind in (int, float)]
BAD = {
    "env": "rlvr/Nope-v0",
    "env_options": {"nope": 1},
    "model": "runs/none",
    "engine": "vlm",
    "engine_options": {"slots": 0},
    "agent": "chatt",
    "prompt": "reactt",
    "sft_masked": ("randm",),
    "tools": "nativ",
    "history": "kept",
    "out": "",
    "lora_targets": ("embed_tokens",),
    "horizon": (10, 0),
    "credit": "gigpoo",
    "credit_options": {"ancho": "state"},
    "train_split": "training",
    "valid_split": "nope",
    "test_split": "nope",
    "envs": (EnvSpec("rlvr/Nope-v0"),),
    "sampler": "unifor",
    "generation": "spek",
    "generation_options": {"nown": 3},
    "branching": "arpoo",
    "branching_options": {"bems": 3},
    "sampler_options": {"low": 3},
    "reward": ("brevit",),
    "reward_options": {"weight": 1},
    "needs_options": {"k": 4},
    "select": "dropp",
    "select_options": {"rounds": 3},
    "loss": "clipp",
    "loss_options": {"dual_clip": -1.0},
    "learner": "locall",
    "learner_options": {"rank": 3},
    "loggers": ("wand",),
    "logger_options": {"project": "x"},
    "worker_options": {"num_cpus": 2},
}
"""A bad value of each field that is neither a number, a flag nor a closed choice."""
NAMED = {
    "loggers": "logger",
    "needs_options": "needs.k",
    "envs": "Nope",
    "env": "Nope",
    "env_options": "nope",
    "engine_options": "engine.slots",
    "lora_targets": "lora_targets",
    "credit_options": "ancho",
    "sampler_options": "low",
    "generation_options": "nown",
    "branching_options": "bems",
    "reward_options": "weight",
    "select_options": "rounds",
    "loss_options": "dual_clip",
    "learner_options": "rank",
    "logger_options": "project",
    "worker_options": "num_cpus",
}
"""What the message names where that is not the field itself."""


def refused(**changes):
    with pytest.raises((BadConfig, UnknownName)) as caught:
        check_run(TrainConfig(env="rlvr/GuessNumber-v0", **changes) if "env" not in changes else TrainConfig(**changes))
    return str(caught.value)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(TrainConfig)])
def test_every_field_refuses_a_bad_value_and_is_named(name):
    kind = KINDS[name]
    if name in BOUNDS:
        assert kind in (int, float) or name in BAD
    if get_origin(kind) is Literal:
        values = ["nope", 3]
    elif kind is bool:
        values = ["yes", 1]
    elif kind in (int, float):
        least, most = BOUNDS[name]
        values = [least - 1, most + 1, float("nan"), float("inf"), "many", True, *([1.5] if kind is int else [])]
    else:
        values = [BAD[name], 7]
    for value in values:
        extra = {"lora_rank": 4, "model": "x/y", "sft_muon": False} if name == "lora_targets" else {}
        assert NAMED.get(name, name) in refused(**{**extra, name: value}) or value == 7


def test_every_number_has_a_bound_and_every_bound_a_number():
    assert set(NUMBERS) | {"horizon"} == set(BOUNDS)
    defaults = TrainConfig()
    for name in NUMBERS:
        least, most = BOUNDS[name]
        assert least <= getattr(defaults, name) <= most
    assert set(FILLED) <= set(KINDS)


@pytest.mark.parametrize("name", ["lr", "sft_lr", "temperature", "grad_clip"])
def test_what_must_be_positive_may_not_be_zero(name):
    assert f"{name} is 0.0; expected more than 0" in refused(**{name: 0.0})


def test_what_does_nothing_together_is_refused():
    assert "constant is 0" in refused(loss_aggregation="constant")
    assert "has no effect with loss_aggregation 'token'" in refused(constant=5.0)
    assert "sum to 1.2" in refused(sft_noise=0.5, sft_invalid=0.5, sft_forget=0.2)
    assert "more than turn_tokens" in refused(turn_tokens=50, context_tokens=50)


def test_the_hf_engine_has_the_options_that_a_run_may_set():
    from inspect import signature

    from agentgym.engines.hf.engine import HFEngine
    from agentgym.engines.kinds import HF

    found = {name for name, one in signature(HFEngine).parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert found == set(HF.least) | {"context", "device", "dtype"}
    assert "engine.slots is 'x'" in refused(engine_options={"slots": "x"})
    assert "Did you mean 'slots'" in refused(engine_options={"slot": 3})


def test_vllm_options_that_are_set_most_are_held_to_their_bounds():
    for options in ({"gpu_memory_utilization": 7}, {"max_num_seqs": 0}, {"tensor_parallel_size": "x"}):
        assert f"engine.{next(iter(options))}" in refused(engine="vllm", model="x/y", engine_options=options)


def test_splits_are_filled_in_and_an_environment_without_a_split_train_trains_on_its_first(tmp_path, monkeypatch):
    (tmp_path / "apart.py").write_text(
        "import agentgym\n"
        "from agentgym.envs.guess_number import GuessNumber\n"
        "class Apart(GuessNumber):\n"
        "    split = 'practice'\n"
        "    splits = {'practice': 0.5, 'exam': 0.5}\n"
        "agentgym.register('me/Apart-v0', Apart)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = check_run(TrainConfig(env="apart:me/Apart-v0")).config
    assert (found.train_split, found.valid_split, found.test_split) == ("practice", "exam", "exam")
    found = check_run(TrainConfig(env="apart:me/Apart-v0", train_split="exam")).config
    assert found.train_split == "exam"


def test_warm_episodes_want_an_expert():
    message = refused(env="rlvr/SWE-v0", model="x/y", sft_episodes=8)
    assert "sft_episodes is 8, which needs an environment with an expert, and rlvr/SWE-v0 has none" in message
    assert "model is 'init'" in refused(env="rlvr/SWE-v0")


def test_warm_episodes_want_an_expert_with_these_options(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "contents": "Ada\\nAda wrote a program."}\n')
    (tmp_path / "questions.jsonl").write_text('{"question": "Who wrote a program?", "golden_answers": ["Ada"]}\n' * 12)
    own = {"corpus": str(tmp_path / "corpus.jsonl"), "questions": str(tmp_path / "questions.jsonl")}
    message = refused(env="rlvr/Search-v0", env_options=own, model="x/y", sft_episodes=8)
    assert "the expert reads generated documents only" in message


def test_models_are_folders_runs_or_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/none", "./x", "/x", "~/nowhere", "a/b/c", "x/"):
        with pytest.raises(BadConfig, match="is not there"):
            model_folder(name)
    assert model_folder("Qwen/Qwen3-1.7B") == "Qwen/Qwen3-1.7B"
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadConfig, match="neither a model"):
        model_folder("empty")
    run = tmp_path / "run"
    (run / "checkpoints" / "step-00000002").mkdir(parents=True)
    (run / "config.toml").write_text("")
    with pytest.raises(BadConfig, match="without a checkpoint"):
        model_folder("run")
    (run / "checkpoints" / "step-00000002" / "trainer.pt").touch()
    assert model_folder("run") == "run/checkpoints/step-00000002"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrys": 3}, "Did you mean 'retries'"),
        ({"retries": "many"}, "engine.retries is 'many'; expected a whole number"),
        ({"timeout": float("nan")}, "engine.timeout is nan; expected a number"),
        ({"timeout": -1}, "timeout -1"),
        ({"model": 7}, "engine.model is 7; expected text"),
    ],
)
def test_options_of_a_server_are_looked_at_before_it_is_asked(options, message):
    own = {"engine": "openai:http://localhost:9/v1", "model": "x/y", "steps": 0, "sft_episodes": 0}
    assert message in refused(**own, engine_options=options)


def test_the_address_of_a_server_is_looked_at_before_it_is_asked():
    assert "expected addresses" in refused(engine="openai:localhost", model="x/y", steps=0, sft_episodes=0)


def test_a_folder_that_holds_a_run_is_refused_before_anything_is_made(tmp_path):
    (tmp_path / "config.toml").touch()
    assert "already holds a run" in refused(out=str(tmp_path))
    assert "is a file" in refused(out=str(tmp_path / "config.toml" / "run"))


def test_a_high_learning_rate_for_a_pretrained_model_is_a_caution():
    assert "1e-06 is usual" in cautions(TrainConfig(model="x/y", lr=1e-3))[0]
    assert not cautions(TrainConfig(model="x/y", lr=1e-6))
    assert not cautions(TrainConfig(lr=1e-3))
    assert "'ngrpo' learns from groups whose returns are all equal" in cautions(TrainConfig(credit="ngrpo"))[0]
    assert not cautions(TrainConfig(credit="ngrpo", select="keep")) and not cautions(TrainConfig(credit="ngrpo", steps=0))
    assert "repeats what it reads" in cautions(TrainConfig(policy_induction_heads=True))[0]
    assert not cautions(TrainConfig(policy_induction_heads=True, sft_episodes=8))
    assert not cautions(TrainConfig(model="x/y", lr=1e-3, lora_rank=4))


WRONG = """
--lr -1 | lr is -1.0
--lr nan | lr is nan
--lr abc | expected a number
--lr | --lr: expected one argument
--sft-noise 7 | sft_noise is 7.0
--clip-low 5 | clip_low is 5.0
--threads -1 | threads is -1
--importance-sampling-level foo | expected one of token, turn, sequence, not 'foo'
--steps 1.5 | expected a whole number
--train-split nope | no split of
--valid-split nope | no split of
--credit gigpoo | Did you mean 'gigpo'
--credit.ancho state | Did you mean 'anchor'
--env.preste tiny | Did you mean 'preset'
--env.preset huge | no preset
--env rlvr/Nope-v0 | Nope
--engine.slot 3 | Did you mean 'slots'
--engine vllm | needs a model folder
--lora-rank 4 | adapters would be all
--lora-alpha 3 | lora_alpha has no effect
--model runs/none | is not there
--prompt reactt | Did you mean 'react'
--sft-episodes 0 --agent nowhere:play | no module 'nowhere'
--horizon 5 0 | horizon is 0
--processes 3 | multiple of processes
--seed -1 | seed is -1
--on 80GB | goes with --plan
--plan --watch | nothing to --watch
--plan --on 80 | --on is '80'
--plan --on huge | --on is 'huge'
--resume runs/none | holds no run
tiny | nothing takes the word 'tiny'
"""


def test_wrong_words_are_one_sentence_before_torch_is_imported(tmp_path):
    """All in one process: what is imported by any of them would be seen at the end."""
    program = """
import contextlib, io, sys
from agentgym.cli import main
for words in sys.stdin.read().splitlines():
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            arguments = words.split()
            code = main(["train", *arguments] if "--resume" in arguments else ["train", "household", *arguments])
        except SystemExit as ended:
            code = ended.code
    print(repr((words, code, said.getvalue())))
print("torch" in sys.modules or "transformers" in sys.modules)
"""
    rows = [row.split(" | ") for row in WRONG.strip().splitlines()]
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(words for words, _ in rows),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    *lines, imported = done.stdout.splitlines()
    assert imported == "False"
    for line, (words, expected) in zip(lines, rows, strict=True):
        words_given, code, printed = eval(line)
        assert (words_given, code) == (words, 2)
        assert expected in printed and printed.count("\n") == 1 and printed.startswith("error: "), (words, printed)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(:\n    pass\n", "line 1: SyntaxError"),
        ("import nowhere_at_all\n", "line 1: ModuleNotFoundError"),
        (
            "import agentgym\nclass X(agentgym.TextEnv):\n"
            "    @agentgym.tool\n    def look(self, where):\n        '''L.'''\n",
            "line 3: TypeError: tool X.look",
        ),
    ],
)
def test_an_error_in_a_module_of_ones_own_is_its_line(tmp_path, monkeypatch, capsys, text, expected):
    name = f"broken_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    for words in (["--env", f"{name}:me/X-v0"], ["household", "--credit", f"{name}:mine"]):
        assert main(["train", *words]) == 2
        errors = capsys.readouterr().err
        assert f"{name}.py, {expected}" in errors and errors.count("\n") == 1


def test_init_policy_says_that_an_environment_has_no_expert(capsys, tmp_path):
    assert main(["init-policy", "rlvr/SWE-v0", "--out", str(tmp_path / "p")]) == 2
    errors = capsys.readouterr().err
    assert "rlvr/SWE-v0 has none" in errors and errors.count("\n") == 1


# Recipes


# The help


@pytest.mark.parametrize("words", [["--help"], ["household-1.5b", "-h"]])
def test_the_help_fits_80_columns_and_has_every_flag(capsys, words):
    with pytest.raises(SystemExit, match="0"):
        main(["train", *words])
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 80
    for name, kind in KINDS.items():
        if name == "envs":  # tables of a recipe
            continue
        flag = name.removesuffix("_options") + ".KEY" if name.endswith("_options") else name.replace("_", "-")
        assert f"\n  --{flag}" in output
        if get_origin(kind) is Literal:
            assert kind.__args__[0] in output
    for entry in ("RECIPE", "--list", "--resume RUN", "--plan", "examples:"):
        assert entry in output
    if "household-1.5b" in words:
        assert "(default: 1e-06)" in output


def test_gradients_are_reduced_once_only_by_several_processes(monkeypatch):
    assert "gradient_reduction is 'update' and has no effect with one process" in refused(gradient_reduction="update")
    check_run(TrainConfig(env="rlvr/GuessNumber-v0", gradient_reduction="update", processes=2))
    monkeypatch.setenv("WORLD_SIZE", "2")  # started by another launcher
    check_run(TrainConfig(env="rlvr/GuessNumber-v0", gradient_reduction="update"))
