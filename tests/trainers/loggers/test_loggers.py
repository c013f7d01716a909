"""Loggers: rows arrive once, over --resume too; one that fails ends nothing; the trackers' own files read back."""

import json
import signal
import sys
import time
import warnings
from pathlib import Path

import pytest
from forked import Program
from whole_runs import small

from agentgym.errors import BadConfig, MissingExtra
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config, to_toml
from agentgym.trainers.loggers import interface as loggers
from agentgym.trainers.seam import SECOND_CTRL_C


@loggers.logger("notes")
class Notes:
    """Writes every row it is given, and when it is closed, to a file."""

    def __init__(self, folder, config, *, title="none", fail=False):
        self.fail, self.file = fail, (folder / "notes.jsonl").open("a")
        self.write({"title": title, "env": config["env"]})

    def write(self, what):
        self.file.write(json.dumps(what) + "\n")
        self.file.flush()

    def log(self, position, row):
        if self.fail:
            raise {"exit": SystemExit(0), "generator": GeneratorExit()}.get(self.fail, OSError("nobody answers"))
        self.write({"position": position, "phase": row["phase"], "step": row["step"]})

    def close(self):
        self.write({"closed": True})


QUICK = {"loggers": ("notes",), "sft_episodes": 4, "test_tasks": 0, "eval_every": 0}


def notes(folder):
    return [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]


def positions(folder):
    return [row["position"] for row in notes(folder) if "position" in row]


def test_every_row_arrives_once_and_the_logger_is_closed(tmp_path):
    config = small(tmp_path / "run", logger_options={"title": "mine"}, **QUICK)
    train(config)
    rows = notes(tmp_path / "run")
    assert rows[0] == {"title": "mine", "env": "rlvr/GuessNumber-v0"} and rows[-1] == {"closed": True}
    assert positions(tmp_path / "run") == [2, 3, 4, 5, 6]  # 2 updates of the warm start, logged once, then 4 steps
    assert read_config(tmp_path / "run/config.toml").logger_options == {"title": "mine"}


CHILD = """
import os, sys
import test_loggers
from pathlib import Path
from agentgym.trainers import train
from agentgym.trainers.config.recipe_files import read_config
def show(what, numbers):
    if what == "step" and numbers["step"] == 3:
        os.kill(os.getpid(), int(sys.argv[2]))
train(read_config(Path(sys.argv[1])), show)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_resumed_run_logs_no_step_twice(tmp_path, number):
    """The checkpoint is of step 2 after a kill in step 3, which is then made again; Ctrl-C closes the logger."""
    config = small(tmp_path / "run", checkpoint_every=2, **QUICK)
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert Program(CHILD, tmp_path / "config.toml", int(number)).wait() != 0
    assert positions(tmp_path / "run") == [2, 3, 4, 5]
    assert (notes(tmp_path / "run")[-1] == {"closed": True}) is (number == signal.SIGINT)
    resume(tmp_path / "run", settings={"loggers": ("notes",)})
    assert positions(tmp_path / "run") == [2, 3, 4, 5, 6]


def test_a_logger_that_fails_ends_nothing_and_is_named_once(tmp_path):
    config = small(tmp_path / "run", logger_options={"fail": True}, **QUICK)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert train(config)["steps"] == 4
    about = [str(one.message) for one in caught if "logger notes failed" in str(one.message)]
    assert about == ["logger notes failed (OSError: nobody answers); the run continues, and metrics.jsonl is complete"]


@pytest.mark.parametrize("fail", ["exit", "generator"])
def test_a_logger_cannot_end_the_program(tmp_path, fail):
    logger = Notes(tmp_path, {"env": "e"}, fail=fail)
    run_loggers = loggers.Loggers(tmp_path, {"notes": logger})
    with pytest.warns(UserWarning, match="logger notes failed"):
        run_loggers.log(3, {"phase": "train", "step": 1})
    assert run_loggers.failed == {"notes"}


def test_the_users_second_ctrl_c_is_no_failure_of_a_logger(tmp_path):
    logger = Notes(tmp_path, {"env": "e"})
    logger.log = lambda *_: sys.exit(SECOND_CTRL_C)
    with pytest.raises(SystemExit):
        loggers.Loggers(tmp_path, {"notes": logger}).log(3, {"phase": "train", "step": 1})


def test_what_cannot_be_is_refused_before_anything_is_loaded(tmp_path, monkeypatch):
    with pytest.raises(BadConfig, match="give --loggers NAME"):
        train(small(tmp_path / "a", logger_options={"project": "x"}))
    with pytest.raises(BadConfig, match="'notes' twice"):
        train(small(tmp_path / "a", loggers=("notes", "notes")))
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"logger 'wandb' needs wandb: .*pip install .*\[wandb\]"):
        train(small(tmp_path / "a", loggers=("wandb",)))
    assert not (tmp_path / "a").exists()


def test_a_logger_that_cannot_start_leaves_the_folder_free(tmp_path):
    @loggers.logger("no-start")
    class NoStart:
        def __init__(self, folder, config):
            raise ConnectionError("wrong key")

        def log(self, position, row):
            pass

        def close(self):
            pass

    with pytest.raises(BadConfig, match=r"'no-start' could not start \(ConnectionError: wrong key\)"):
        train(small(tmp_path / "a", loggers=("no-start",)))
    assert not (tmp_path / "a").exists()


def test_the_example_of_the_page(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    stage = loggers.resolve_loggers(("examples.stages.logger:Table",), {"column": "entropy"})[0]
    made = stage(tmp_path, {})
    made.log(3, {"phase": "rl", "step": 1, "entropy": 0.5})
    made.close()
    assert (tmp_path / "table.csv").read_text() == "3,0.5\n"


def test_an_option_of_several_loggers_has_to_say_whose_it_is():
    pytest.importorskip("wandb", reason="the extra `track` is not installed")
    pytest.importorskip("mlflow", reason="the extra `track` is not installed")
    with pytest.raises(BadConfig, match=r"--logger\.wandb\.name"):
        loggers.resolve_loggers(("wandb", "mlflow"), {"name": "x"})
    both = loggers.resolve_loggers(("wandb", "mlflow"), {"wandb.name": "x", "mlflow.name": "y"})
    assert [stage.options for stage in both] == [{"name": "x"}, {"name": "y"}]


def test_the_key_of_an_engine_is_told_to_nobody(tmp_path):
    options = {"key": "sk-1", "model": "m"}
    config = small(tmp_path, engine="openai:http://localhost:1", engine_options=options, model="m", steps=0, sft_episodes=0)
    assert loggers.flat_config(config)["engine_options"] == {"key": "***", "model": "m"}


ROWS = [{"phase": "sft", "step": 20, "nll": 0.5}, {"phase": "rl", "step": 1, "reward": 0.25, "entropy": float("nan")}]


def two_sittings(name, folder, **options):
    """Log a row in each of two sittings, the second of which is offered the first's row again."""
    made = loggers.LOGGERS.resolve(name, options)
    for sitting in (ROWS[:1], ROWS):
        log = loggers.Loggers(folder, {name: made(folder, {"lr": 1.0, "horizon": (2, 3)})})
        for row in sitting:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                log.log(20 if row["phase"] == "sft" else 21, row)
        log.close()


def test_tensorboard_reads_back(tmp_path):
    pytest.importorskip("tensorboardX", reason="the extra `track` is not installed")
    two_sittings("tensorboard", tmp_path)
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted((tmp_path / "tensorboard").iterdir()):
        data = path.read_bytes()  # of records: length, checksum, data, checksum
        while data:
            size = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + size])
            found += [(value.tag, event.step, round(value.simple_value, 6)) for value in event.summary.value]
            data = data[16 + size :]
    assert sorted(found) == [("rl/reward", 21, 0.25), ("rl/step", 21, 1), ("sft/nll", 20, 0.5), ("sft/step", 20, 20)]


def leveldb_log(data):
    """Yield the records of a log in LevelDB's form: blocks of 32 KiB, of fragments with checksum, length and kind."""
    place, content = 7, b""  # after the header of the file
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        content += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield content
            content = b""


def wandb_records(path):
    """Return the records of a run's file once the last is there: wandb 0.31 may write it after `finish` returned."""
    from wandb.proto.wandb_internal_pb2 import Record

    for _ in range(300):
        records = [Record.FromString(data) for data in leveldb_log(path.read_bytes())]
        if records and records[-1].HasField("exit"):
            return records
        time.sleep(0.1)
    raise AssertionError(f"{path} has no end: {[record.WhichOneof('record_type') for record in records]}")


def test_wandb_offline_goes_on_in_the_same_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `track` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    two_sittings("wandb", tmp_path, project="x")
    found, runs = [], set()
    for path in sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb")):
        for record in wandb_records(path):
            runs |= {(record.run.run_id, record.run.project)} if record.HasField("run") else set()
            row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            found += [row] if row else []
    assert runs == {((tmp_path / "wandb.run").read_text(), "x")}
    assert [(row["_step"], row.get("sft/nll"), row.get("rl/reward")) for row in found] == [(20, 0.5, None), (21, None, 0.25)]


def test_mlflow_goes_on_in_the_same_run(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="the extra `track` is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    two_sittings("mlflow", tmp_path, experiment="e")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert [one.info.run_id for one in run] == [(tmp_path / "mlflow.run").read_text()]
    assert run[0].info.status == "FINISHED" and run[0].data.params["lr"] == "1.0"
    for name, step, value in (("sft/nll", 20, 0.5), ("rl/reward", 21, 0.25)):
        assert [(one.step, one.value) for one in client.get_metric_history(run[0].info.run_id, name)] == [(step, value)]


def test_trackio_goes_on_in_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="trackio is not installed, or its requirements exclude the versions here")
    two_sittings("trackio", tmp_path, project="x")
    from trackio.sqlite_storage import SQLiteStorage

    name = (tmp_path / "trackio.run").read_text()
    assert SQLiteStorage.get_runs("x") == [name]
    rows = [(row["step"], row.get("sft/nll"), row.get("rl/reward")) for row in SQLiteStorage.get_logs("x", name)]
    assert rows == [(20, 0.5, None), (21, None, 0.25)]
