"""Plans for GPUs that are not here: their memory, published shapes, rows in a stand-in's tokens, durations in words."""

import io
import json

import pytest
from rich.console import Console

from agentgym.cli import main
from agentgym.cli.plan import in_words
from agentgym.cli.train import _table
from agentgym.cli.train_screen import one_line, step_cells
from agentgym.errors import BadConfig
from agentgym.planner.plan import read_architecture
from agentgym.planner.stand_in import stand_in
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import named
from agentgym.trainers.run.fits import parameters


def test_gpus_by_name():
    one, two = named("80GB"), named("2 x 24 gb")
    assert (one.device, one.devices, one.elsewhere, one.total) == ("cuda", 1, True, int(80 * 2**30 * 63 / 64))
    assert (two.devices, two.total - two.free) == (2, 2**29)
    for words in ("80", "GB", "0GB", "x80GB", "80TB", "0x80GB", "-80GB", "1e3GB"):
        with pytest.raises(BadConfig, match="expected the size of a GPU"):
            named(words)


@pytest.mark.parametrize(
    ("name", "millions"),  # as the models' own pages count them, in the number of digits that they give
    [("Qwen/Qwen2.5-0.5B", 494.0), ("Qwen2.5-1.5B-Instruct", 1543.7), ("Qwen/Qwen2.5-Coder-7B-Instruct", 7615.6),
     ("Qwen/Qwen2.5-14B", 14770.0), ("Qwen/Qwen2.5-32B-Instruct", 32763.9), ("Qwen/Qwen3-0.6B", 596.0),
     ("Qwen/Qwen3-8B", 8190.7), ("meta-llama/Llama-3.2-1B-Instruct", 1235.8), ("meta-llama/Llama-3.1-70B", 70553.7)],
)  # fmt: skip
def test_published_shapes_have_the_published_number_of_parameters(name, millions):
    assert parameters(read_architecture(TrainConfig(model=name))) / 1e6 == pytest.approx(millions, abs=0.06)


def test_a_model_of_no_known_shape_is_looked_for_nowhere_else():
    with pytest.raises(BadConfig, match=r"no model configuration.*Qwen/Qwen2\.5-1\.5B"):
        read_architecture(TrainConfig(model="nobody/has-this"))


def test_the_stand_in_cuts_text_as_coarsely_as_words_and_shows_tools():
    tokenizer = stand_in([("rlvr/GuessNumber-v0", {})], 0)
    assert len(tokenizer("Guess a number, please.")["input_ids"]) <= 12
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    rendered = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
    assert '"look"' in rendered and rendered.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_a_plan_for_a_gpu_elsewhere_times_nothing_and_caps_rows(monkeypatch, capsys):
    monkeypatch.setattr("agentgym.planner.forecast.calibrate", lambda *_: pytest.fail("timed"))
    few = ["--horizon", "3", "--turn-tokens", "64", "--tasks-per-step", "2", "--group-size", "2", "--concurrency", "4"]
    words = ["train", "--env", "rlvr/GuessNumber-v0", "--model", "Qwen/Qwen2.5-0.5B-Instruct", *few, "--plan", "--json"]
    assert main([*words, "--on", "80GB"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] and found["device"] == "cuda" and 3 * 64 < found["row"] < 600  # not the model's 32,768
    assert "seconds_likely" not in found
    assert main([*words, "--on", "4GB"]) == 1
    assert main([*words, "--on", "huge"]) == 2


def test_the_table_at_the_end_of_a_run_cuts_no_word_at_80_columns():
    rates = {f"success_{name}": 0.5 for name in ("before", "sft", "after")}
    rest = {"tasks": 200, "tasks_before": 40, "split": "valid_unseen", "credit": "state_td"}
    rest |= {"episodes": 24_000, "train_seconds": 1234.0}
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(_table({**rates, **rest, "fault_share": 0.02, "comparable": False}))
    output = console.export_text()
    assert "…" not in output and max(map(len, output.splitlines())) <= 80
    assert all(word in output for word in ("infrastructure", "seconds", "1234", "2.0%", "comparable"))


def test_durations_in_words():
    assert [in_words(s) for s in (0.4, 45, 150, 3000, 9000, 60_000, 300_000)] == [
        "a second", "45 seconds", "2.5 minutes", "50 minutes", "2.5 hours", "17 hours", "3.5 days"
    ]  # fmt: skip


def test_a_steps_line_fits_the_terminal():
    names = ("share_rollout", "share_train", "share_env", "reward", "turns", "tokens_per_second", "eta_seconds")
    numbers = {**dict.fromkeys(names, 0.5), "step": 7, "success_train": 0.25, "groups_dropped": 3, "fault_share": 0.0}
    cells = step_cells(numbers, differs=True)
    for width in (40, 60, 80, 100):
        line = one_line(cells, width)
        assert len(line) <= width and line.startswith("step    7  success  25%")
    assert all(cell in one_line(cells, None) for cell in cells)
    line = one_line(step_cells({**numbers, "fault_share": 0.031}, differs=True), 80)
    assert line.startswith("step    7  success  25%  infrastructure errors 3.1% (not comparable)")
