"""Stored episodes: imitation that resumes to the last digit, tokens for text, and tables that TRL's trainers read."""

import json
import signal
from collections import Counter
from dataclasses import replace

import pytest
from foreign_logs import DOCUMENT, job, log, sample
from forked import Program
from hypothesis import given
from hypothesis import strategies as st
from small_runs import TIMES
from test_pairs import chat
from whole_runs import small

from agentgym.cli import main
from agentgym.episodes.episode import Episode, Turn, append_episodes, read_episodes
from agentgym.errors import BadConfig, BadData
from agentgym.trainers import train
from agentgym.trainers.config.imitation_config import ImitationConfig, read_imitation
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.export import Rows, write_parquet
from agentgym.trainers.data.segments import build
from agentgym.trainers.data.stored import Encoder, Filter, called, read_files
from agentgym.trainers.model.policy import load_policy
from agentgym.trainers.run.imitation import deal, resume_sft, sft


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "run"
    larger = {"policy_width": 128, "policy_layers": 2, "sft_episodes": 60}  # most replies are as the tokenizer writes them
    train(small(folder, **larger, steps=3, eval_every=0, test_tasks=3, keep_episodes=100, checkpoint_every=5))
    return folder


def config(run, out, **changes):
    base = {"epochs": 2, "batch": 4, "lr": 1e-3, "threads": 1, "checkpoint_every": 3}
    return ImitationConfig((str(run),), str(run / "init"), str(out), **{**base, **changes})


def rows(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sft") / "whole"
    return folder, sft(config(run, folder, split="train"))


def test_imitation_learns_and_leaves_what_a_training_run_leaves(run, whole):
    folder, summary = whole
    assert summary["episodes"] == 24 and summary["drawn"] == 48 and summary["updates"] == 12  # 3 steps of 2 groups of 4
    assert summary["nll"] < rows(folder)[0]["nll"] / 2
    assert {"manifest.json", "config.toml", "metrics.jsonl", "summary.json"} <= {path.name for path in folder.iterdir()}
    assert [path.name for path in sorted((folder / "checkpoints").iterdir())] == ["step-00000009", "step-00000012"]
    assert read_imitation(folder) == config(run, folder, split="train", precision="fp32")
    with pytest.raises(BadConfig, match="agentgym sft --resume"):
        train_error(["--resume", str(folder)])


def train_error(arguments):
    from agentgym.cli.train import read, run

    run(read(arguments))


CHILD = """
import os, sys
from agentgym.trainers.run.imitation import sft
from agentgym.trainers.config.imitation_config import read_imitation
from dataclasses import replace
def show(what, numbers):
    if what == "progress" and numbers["done"] == 8:
        os.kill(os.getpid(), int(sys.argv[3]))
sft(replace(read_imitation(sys.argv[1]), out=sys.argv[2]), show)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stopped_imitation_goes_on_to_the_last_digit(run, whole, tmp_path, number):
    assert Program(CHILD, whole[0], tmp_path / "run", int(number)).wait() != 0
    newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1].name
    assert newest == ("step-00000006" if number == signal.SIGKILL else "step-00000007")
    summary = resume_sft(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(whole[0])
    assert summary["nll"] == whole[1]["nll"]
    assert len(json.loads((tmp_path / "run/manifest.json").read_text())["sessions"]) == 2


def test_a_resumed_imitation_wants_the_same_episodes(run, tmp_path):
    copied = tmp_path / "own.jsonl"
    copied.write_text((run / "episodes.jsonl").read_text())
    sft(replace(config(run, tmp_path / "run"), files=(str(copied),), epochs=1))
    copied.write_text("".join((run / "episodes.jsonl").read_text().splitlines(keepends=True)[:20]))
    with pytest.raises(BadConfig, match="hold other episodes than at the start"):
        resume_sft(tmp_path / "run")


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4).flatmap(
        lambda lengths: st.tuples(
            st.just(lengths), st.lists(st.floats(0.1, 9), min_size=len(lengths), max_size=len(lengths)), st.integers(0, 5)
        )
    )
)
def test_episodes_are_dealt_evenly(drawn):
    lengths, weights, epochs = drawn
    once = deal(lengths, (), 0, epochs)
    assert sorted(once) == [(file, number) for file, length in enumerate(lengths) for number in range(length)]
    pairs = [pair for epoch in range(epochs + 1) for pair in deal(lengths, weights, 0, epoch)]
    for file, length in enumerate(lengths):
        counts = Counter(number for other, number in pairs if other == file)
        share = (epochs + 1) * sum(lengths) * weights[file] / sum(weights)
        assert abs(counts.total() - share) <= 0.5 + 1e-9  # a share that is half a number may come out a rounding error off
        assert max(counts.values(), default=0) - min((counts[n] for n in range(length)), default=0) <= 1


def test_weights_by_file_by_hand():
    pairs = deal([4, 4], (3.0, 1.0), 0, 0)
    assert Counter(file for file, _ in pairs) == {0: 6, 1: 2}


def test_adapters_imitate_too(run, tmp_path):
    words = [
        "sft",
        str(run),
        "--model",
        str(run / "init"),
        "--lora-rank",
        "4",
        "--lr",
        "1e-2",
        "--epochs",
        "2",
        "--threads",
        "1",
    ]
    assert main([*words, "--batch", "4", "--split", "train", "--out", str(tmp_path / "out")]) == 0
    losses = [row["nll"] for row in rows(tmp_path / "out")]
    assert losses[-1] < losses[0]
    assert (tmp_path / "out/checkpoints/step-00000012/adapter_config.json").exists()


def test_the_schedule_by_hand():
    made = ImitationConfig(("f",), "m", lr=1.0, lr_schedule="linear", min_lr_ratio=0.0, lr_warmup=2)
    assert [made.lr_at(place, 7) for place in range(7)] == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    cosine = replace(made, lr_schedule="cosine", lr_warmup=0, min_lr_ratio=0.5)
    assert [round(cosine.lr_at(place, 3), 9) for place in range(3)] == [1.0, 0.75, 0.5]


def episode(task, reward, success=None, **values):
    return Episode(
        "rlvr/GuessNumber-v0", task, task, 0, 0, [Turn("o", text="1", action="1")], reward=reward, success=success, **values
    )


def test_filters(tmp_path):
    selected = [
        episode("a", 1.0, True, split="train"),
        episode("b", 0.4, False, split="train"),
        episode("c", 1.0, True, split="test"),
        episode("d", 0.0, None, reason="crash"),
    ]
    with append_episodes(tmp_path / "f.jsonl") as file:
        file.writelines(one.to_json() + "\n" for one in selected)

    def names(**which):
        return [one.task_id for one in read_files([str(tmp_path / "f.jsonl")], Filter(**which))[0]]

    assert names() == ["a", "b", "c"]
    assert names(success=True) == ["a", "c"] and names(split="train") == ["a", "b"]
    assert names(min_reward=0.4, split="train") == ["a", "b"] and names(min_reward=0.5) == ["a", "c"]
    assert names(env="GuessNumber") == names(env="rlvr/GuessNumber-v0") == ["a", "b", "c"]
    with pytest.raises(
        BadConfig, match="4 episodes, 1 of them infrastructure errors and 0 played with a hint, and none that passes"
    ):
        names(env="rlvr/Sokoban-v0")


def test_what_makes_no_sense_is_refused():
    for changes, message in (
        ({"files": ()}, "no file of episodes"),
        ({"weights": (1.0,), "files": ("a", "b")}, "a number above 0 for each of 2 files"),
        ({"batch": 3, "processes": 2}, "a multiple of processes"),
        ({"epochs": 0}, "epochs is 0"),
        ({"lr_schedule": "constant", "min_lr_ratio": 0.5}, "has no effect"),
        ({"lr": 2.0}, "sft_lr is 2.0"),
        ({"model": "init"}, "init-policy"),
        ({"agent": "summary"}, "memory"),
        ({"muon": True, "lora_rank": 4}, "adapters"),
    ):
        with pytest.raises(BadConfig, match=message):
            ImitationConfig(**{"files": ("a",), "model": "m", **changes})


def without_tokens(episode):
    copy = Episode.from_json(episode.to_json())
    for turn in copy.turns:
        turn.prompt_ids, turn.output_ids, turn.logprobs = [], [], []
    return copy


@pytest.fixture(scope="module")
def tokenise(run):
    from agentgym.engines.hf.engine import HFEngine

    model, tokenizer = load_policy(run / "init")
    return Encoder(TrainConfig(model=str(run / "init")).spec, HFEngine(model, tokenizer), tokenizer)


def test_text_gets_the_tokens_that_the_agent_would_have_held(run, tokenise):
    """Evaluation episodes whose replies ended of themselves: their own tokens come back from their text."""
    several = 0
    for sampled in read_episodes(run / "episodes.jsonl"):
        if not all(turn.parsed and turn.finish == "stop" for turn in sampled.turns):
            continue
        tokenized = tokenise(without_tokens(sampled))
        decode = tokenise.agent.template.encoder.decode
        assert [decode(turn.output_ids) for turn in tokenized.turns] == [decode(turn.output_ids) for turn in sampled.turns]
        assert list(tokenized.turns[0].prompt_ids) == list(sampled.turns[0].prompt_ids)
        assert [turn.observation for turn in tokenized.turns] == [turn.observation for turn in sampled.turns]
        assert build([tokenized])[0].trained == sum(len(turn.output_ids) for turn in tokenized.turns)
        several += 1
    assert several > 3


def test_text_is_trained_on(run, tmp_path):
    with append_episodes(tmp_path / "text.jsonl") as file:
        for one in read_episodes(run / "episodes.jsonl"):
            if all(turn.parsed for turn in one.turns):
                file.write(without_tokens(one).to_json() + "\n")
    summary = sft(replace(config(run, tmp_path / "run"), files=(str(tmp_path / "text.jsonl"),), epochs=1))
    assert summary["nll"] > 0


def test_logs_are_trained_on_as_they_are(run, tmp_path):
    """A Harbor job, a log of inspect_ai and an ATIF document: no `import` before, and the counts of their episodes."""
    (tmp_path / "one.json").write_text(json.dumps(DOCUMENT))
    logs = [job(tmp_path / "job"), log(tmp_path / "x.eval", [sample(1, "C"), sample(2, "I")]), tmp_path / "one.json"]
    summary = sft(replace(config(run, tmp_path / "out", epochs=1), files=tuple(map(str, logs))))
    assert summary["episodes"] == 3 + 2 + 1 and summary["updates"] > 0


def test_text_that_cannot_be_told_again_is_refused_in_one_sentence(run, tokenise):
    text = without_tokens(read_episodes(run / "episodes.jsonl")[0])
    text.env = "rlvr/NoSuch-v0"
    with pytest.raises(BadData, match=r"has text but no token ids, and cannot be encoded in this model's tokens: .*NoSuch"):
        tokenise(text)
    text.turns[0].notes = [Turn("", text="x")]
    with pytest.raises(BadData, match="its notes belong to another agent's memory"):
        tokenise(text)


def export(run, out, form, *flags):
    datasets = pytest.importorskip("datasets", reason="the extra `train` is not installed")
    assert main(["export", str(run), "--as", form, "--out", str(out), *flags]) == 0
    return datasets.load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(out.parent / "cache"))


def test_sft_rows_are_the_rows_that_training_sees(run, tmp_path):
    table = export(run, tmp_path / "a.parquet", "sft", "--split", "train")
    selected = read_files([str(run)], Filter(split="train"))[0]
    expected = build(selected)
    assert [row["input_ids"] for row in table] == [row.ids.tolist() for row in expected]
    assert [row["assistant_masks"] for row in table] == [row.mask.astype(int).tolist() for row in expected]
    first = table[0]["messages"]
    roles = [message["role"] for message in first]
    assert roles[0] in ("system", "user") and roles.count("assistant") == len(selected[0].turns)
    assert [m["content"] for m in first if m["role"] == "assistant"] == [turn.text for turn in selected[0].turns]
    assert set(export(run, tmp_path / "b.parquet", "sft", "--no-tokens").column_names) & {"input_ids", "messages"} == {
        "messages"
    }


def test_grpo_rows_have_the_advantages_of_the_run_or_of_a_credit(run, tmp_path):
    table = export(run, tmp_path / "a.parquet", "grpo")
    episodes = [e for e in read_episodes(run / "episodes.jsonl") if all("advantage" in t.extra for t in e.turns)]
    assert len(table) == len(episodes) == 24
    for row, one in zip(table, episodes, strict=True):
        ids = row["prompt_ids"] + row["completion_ids"]
        assert ids == [*one.turns[-1].prompt_ids, *one.turns[-1].output_ids]
        n = len(row["completion_ids"])
        assert n == len(row["tool_mask"]) == len(row["advantages"]) == len(row["sampling_per_token_logps"])
        assert sum(row["tool_mask"]) == sum(len(turn.output_ids) for turn in one.turns)
        assert row["advantages"][0] == pytest.approx(one.turns[0].extra["advantage"], abs=1e-6)
        assert row["sampling_per_token_logps"][0] == pytest.approx(one.turns[0].logprobs[0], abs=1e-6)
        assert row["prompt"][-1]["role"] == "user" and row["completion"][0]["role"] == "assistant"
    computed = export(run, tmp_path / "b.parquet", "grpo", "--split", "train", "--credit", "dr_grpo")
    by_group = {}
    for row in computed:
        by_group.setdefault(row["group_id"], []).append((row["reward"], row["advantages"][0]))
    for pairs in by_group.values():  # Dr.GRPO: reward minus the group's mean, without a scale
        mean = sum(reward for reward, _ in pairs) / len(pairs)
        assert all(advantage == pytest.approx(reward - mean, abs=1e-6) for reward, advantage in pairs)


def test_episodes_come_back_whole(run, tmp_path):
    table = export(run, tmp_path / "a.parquet", "episodes")
    assert [Episode.from_json(row["episode"]) for row in table] == read_files([str(run)], Filter())[0]


def test_what_export_cannot_do_is_one_sentence(run, tmp_path, capsys):
    for flags, message in (
        (["--out", "a.csv"], "ends with .parquet"),
        (["--out", "a.parquet", "--credit", "grpo"], "credit goes with --as grpo"),
        (["--out", "a.parquet", "--as", "dpo", "--no-tokens"], "goes with --as sft"),
    ):
        assert main(["export", str(run), *flags]) == 2
        assert message in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none"), "--out", "a.parquet"]) == 2
    assert "is not there; expected a file of episodes" in capsys.readouterr().err


@pytest.mark.long
def test_trl_trains_on_the_tables(run, tmp_path):
    """One step each of its SFT and DPO trainers, on a model made from nothing."""
    trl = pytest.importorskip("trl", reason="the extra `train` is not installed")
    datasets = pytest.importorskip("datasets", reason="the extra `train` is not installed")
    model, tokenizer = load_policy(run / "init")
    common = {"max_steps": 1, "report_to": [], "use_cpu": True, "per_device_train_batch_size": 2, "save_strategy": "no"}
    for tokens in ([], ["--no-tokens"]):
        table = export(run, tmp_path / f"sft{len(tokens)}.parquet", "sft", "--split", "train", *tokens)
        arguments = trl.SFTConfig(output_dir=str(tmp_path / "o"), max_length=512, **common)
        trainer = trl.SFTTrainer(model, args=arguments, train_dataset=table, processing_class=tokenizer)
        assert trainer.train().training_loss > 0
        if not tokens:
            labels = trainer.train_dataset[0]["labels"]
            assert [n != -100 for n in labels] == [bool(n) for n in table[0]["assistant_masks"]]
    pairs = [chat("a", n, float(n == 0), "1", "2") for n in range(4)]
    write_parquet(tmp_path / "dpo.parquet", Rows(lambda env: None).dpo(pairs))
    table = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "dpo.parquet"), split="train", cache_dir=str(tmp_path)
    )
    arguments = trl.DPOConfig(output_dir=str(tmp_path / "o"), max_length=512, **common)
    trainer = trl.DPOTrainer(model, args=arguments, train_dataset=table, processing_class=tokenizer)
    assert trainer.train().training_loss > 0


def test_trls_grpo_trainer_reads_its_table(run, tmp_path):
    """It samples from the prompts itself, and hands the columns of the recorded episodes to its reward function."""
    trl = pytest.importorskip("trl", reason="the extra `train` is not installed")
    model, tokenizer = load_policy(run / "init")
    table = export(run, tmp_path / "grpo.parquet", "grpo")
    handed = []

    def rewarded(completions, *, advantages, tool_mask, **columns):
        handed.extend(zip(advantages, tool_mask, strict=True))
        return [float(len(str(completion))) for completion in completions]

    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "o"), max_steps=1, report_to=[], use_cpu=True, per_device_train_batch_size=2,
        num_generations=2, max_completion_length=4, save_strategy="no",
    )  # fmt: skip
    trainer = trl.GRPOTrainer(model, rewarded, args=arguments, train_dataset=table, processing_class=tokenizer)
    trainer.train()
    recorded = [(row["advantages"], row["tool_mask"]) for row in table]
    assert len(handed) == 2 and all(pair in recorded for pair in handed)


@pytest.mark.parametrize("env", ["rlvr/Harbor-v0", "inspect_ai/arith", "atif"])
def test_imported_episodes_are_imitated_with_the_tools_that_their_calls_show(env, tokenise):
    imported = Episode(env, "hello", "g", 0, instruction="Do it.", success=True, reason="success")
    calls = [{"name": "bash", "arguments": arguments} for arguments in ({"command": "ls", "n": 1}, {"command": "cat x"})]
    for action in map(json.dumps, calls):
        imported.add(Turn("seen", None, None, [], text=action, action=action))
    tokenized = tokenise(imported)
    assert [turn.action for turn in tokenized.turns] == [turn.action for turn in imported.turns]
    assert all(turn.output_ids and turn.extra["train"] for turn in tokenized.turns)
    (tool,) = called(imported).values()
    assert tool.parameters["required"] == ["command"] and "n" in tool.parameters["properties"]


@pytest.mark.parametrize("action", ["ls", "1", "[" * 100_000, '{"name": 1, "arguments": {}}', '{"name": "x"}', "null"])
def test_what_is_no_call_shows_no_tool(action):
    imported = Episode("rlvr/Harbor-v0", "hello", "g", 0)
    imported.add(Turn("seen", None, None, [], action=action))
    assert called(imported) == {}
