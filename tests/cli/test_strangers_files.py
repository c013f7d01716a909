"""A stranger's file must not choose what runs: every command over folders that name modules, addresses and sandboxes."""

import dataclasses
import importlib
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from agentgym.cli import main
from agentgym.cli.flags import read_flags, written
from agentgym.core.caller import Setting, option_word, quoted
from agentgym.core.folders import write_whole
from agentgym.episodes.stored_env import of_dataset, stored_id, stored_settings
from agentgym.errors import BadConfig, BadData, MissingExtra, UnknownName
from agentgym.registry import DESCRIPTIONS
from agentgym.trainers.config.imitation_config import ImitationConfig, read_imitation
from agentgym.trainers.config.recipe_files import read_recipe, read_run, recipes, to_toml
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig

EVIL = "evil_module"
HOSTILE = "a'b; touch pwned $(touch pwned) `touch pwned` \x1b]0;owned\x07 \u202e\n#"


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that fails once the module of the hostile files was imported, or their shell text was run."""
    (tmp_path / f"{EVIL}.py").write_text("from pathlib import Path\nPath(__file__).with_name('pwned').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def unharmed() -> bool:
        return EVIL not in sys.modules and not (tmp_path / "pwned").exists()

    yield unharmed
    sys.modules.pop(EVIL, None)


RUNS = {
    "env": f'env = "{EVIL}:ns/X-v0"',
    "foreign env": 'env = "openenv:http://203.0.113.1"',
    "backend": 'env = "rlvr/Code-v0"\n[env_options]\nbackend = "process"\nbackend_options = {unsafe = true}',
    "data": 'env = "rlvr/SQL-v0"\nenv_options = {data = "/etc"}',
    "envs": f'[[envs]]\nid = "rlvr/Sokoban-v0"\n[[envs]]\nid = "{EVIL}:ns/X-v0"',
    "envs options": '[[envs]]\nid = "rlvr/Math-v0"\noptions = {packages = ["os"]}',
    "envs prompt": '[[envs]]\nid = "rlvr/Sokoban-v0"\nagent = {prompt = "/etc/x.txt"}',
    "model": 'model = "stranger/model"',
    "prompt": '[agent]\nprompt = "/etc/x.txt"',
    "agent": f'[agent]\nname = "{EVIL}:play"',
    "engine": '[engine]\nname = "vllm:http://203.0.113.1"',
    "engine options": '[engine]\nworker_cls = "evil.Worker"',
    "workers": "[rollout]\nworkers = 3",
    "ray": '[rollout]\nworker_backend = "ray"\nworker_options = {num_cpus = 1}',
    "loggers": f'[track]\nloggers = ["{EVIL}:Logger"]',
    "logger options": 'loggers = ["mlflow"]\nlogger_options = {uri = "http://203.0.113.1"}',
    "credit": f'[credit]\nname = "{EVIL}:credit"\nx = "y"',
    "credit of a credit": f'[credit]\nname = "off_policy"\nbase = "{EVIL}:credit"',
    "loss": f'[loss]\nname = "{EVIL}:loss"',
    "sampler": f'[sampler]\nname = "{EVIL}:Sampler"',
    "select": f'[select]\nname = "{EVIL}:select"',
    "reward": f'[reward]\nnames = ["length", "{EVIL}:reward"]',
    "judge": '[reward]\nnames = ["judge"]\nengine = "chat:http://203.0.113.1#m"\nrubric = "x"\ncache = "/etc"',
    "judge in numbers": '[reward]\nnames = ["judge"]\nengine_options = {timeout = 9}',
    "judge in a table": '[reward]\nnames = ["judge", "length"]\n[reward.judge]\ncache = "/etc"',
    "needs": f'[needs]\nteacher = "{EVIL}:Engine"',
    "learner": '[learner]\nname = "tinker:http://203.0.113.1"',
    "own learner": f'[learner]\nname = "{EVIL}:Learner"\nplace = "x"',
    "generation": f'[generation]\nname = "{EVIL}:generation"',
    "branching": f'[branching]\nname = "{EVIL}:branching"',
    "hostile text": f"env = {json.dumps(HOSTILE)}\n[env_options]\nx = {json.dumps(HOSTILE)}\n{json.dumps(HOSTILE)} = 1",
    "base": 'base = "../recipe.toml"',
}


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_a_stored_run_is_not_resumed_with_what_only_the_caller_says(text: str, canary, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text(text)
    assert main(["train", "--resume", "run"]) == 2
    error = capsys.readouterr().err
    assert canary(), error
    assert not any(c != "\n" and not c.isprintable() for c in error), "control characters of the file reach the terminal"
    if "base" in text and "off_policy" not in text:
        return
    assert error.count("\n") == 1 and "run/config.toml sets --" in error
    command = error.partition("If you trust these values: ")[2]
    assert command.startswith("agentgym train --resume run --")
    words = bash_words(command)
    assert canary()
    with pytest.raises((BadConfig, UnknownName, BadData, MissingExtra)) as refused:  # another reason: all was said
        read_again(words[1:])
    assert "which says where or how" not in str(refused.value)


def read_again(words: list[str]) -> None:
    """Read a run as `agentgym train --resume` does, the module that the command line names in place, and empty."""
    from agentgym.cli import train

    config = train.read(words[1:])
    sys.modules[EVIL] = importlib.import_module("types").ModuleType(EVIL)  # named by the caller now; nothing is in it
    read_run(config.resume, config.settings)
    raise BadConfig("read")


def bash_words(command: str) -> list[str]:
    """Return the words that a shell makes of a command."""
    code = f"printf '%s\\0' {command}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


def test_pasted_words_are_the_values():
    values = [
        HOSTILE,
        "",
        "-x",
        "3",
        "true",
        "null",
        "a b",
        "é\u202e",
        "\\",
        "'",
        {"a": [1, HOSTILE]},
        ["x"],
        None,
        True,
        0.5,
    ]
    words = [word for number, value in enumerate(values) for word in Setting(f"env.k{number}", value).words]
    assert bash_words(quoted(words)) == words and quoted(words).isprintable()
    from agentgym.cli.flags import read_settings

    assert list(read_settings(words, "").values()) == values
    plain = Setting("prompt", HOSTILE).words
    assert bash_words(quoted(plain)) == plain and quoted(plain).isprintable()
    assert option_word("\x1b") == '"\\u001b"'


def test_a_run_of_defaults_is_resumed_by_one_command(tmp_path: Path):
    config = TrainConfig(
        env_options={"preset": "tiny"}, reward=("length",), reward_options={"budget": 9, "schedule": "0:0.1"}
    )
    for number, own in enumerate((TrainConfig(), config, read_recipe("household"), read_recipe("shop"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.toml").write_text(to_toml(own))
        assert read_run(folder) == own
    for name in recipes():
        (tmp_path / "config.toml").write_text(to_toml(read_recipe(name)))
        try:
            read_run(tmp_path)
        except BadConfig as error:  # recipes of pretrained models say which, and vLLM
            assert "sets --model, --engine, which says" in str(error), (name, error)


def test_what_the_caller_says_holds(tmp_path: Path):
    own = TrainConfig(
        engine="vllm:http://127.0.0.1:1",
        model=str(tmp_path),
        workers=3,
        envs=(EnvSpec("rlvr/Sokoban-v0"), EnvSpec("rlvr/SQL-v0", options={"data": "/old", "variants": 1})),
        reward=("judge", "length"),
        reward_options={"judge": {"engine": "chat:http://a#m", "rubric": "r"}, "budget": 3},
    )
    (tmp_path / "config.toml").write_text(to_toml(own))
    caller = {"engine": "vllm:http://127.0.0.1:2", "workers": "4", "env.2.data": "/new"}
    with pytest.raises(BadConfig, match=r"sets --reward.judge.engine, --reward.judge.rubric, which"):
        read_run(tmp_path, caller)
    run = read_run(tmp_path, {**caller, "reward.judge.engine": "chat:http://b#m", "reward.judge.rubric": "r"})
    assert (run.engine, run.workers, run.envs[1].options) == (caller["engine"], 4, {"data": "/new", "variants": 1})
    assert run.reward_options == {"judge.engine": "chat:http://b#m", "judge.rubric": "r", "budget": 3}
    with pytest.raises(BadConfig, match="continues with its own configuration; only --steps and --processes can be changed"):
        read_run(tmp_path, {**caller, "lr": "1"})
    (tmp_path / "config.toml").write_text(f'env = "{EVIL}:ns/X-v0"')
    with pytest.raises(BadConfig, match=f"--env {EVIL}:ns/X-v0"):  # another module is not the same module
        read_run(tmp_path, {"env": "os:ns/X-v0"})


def test_sft_reads_no_module_prompt_or_address_back(canary, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "x.txt").write_text("[turn]\n{observation}\n[reply]\nbare\n")
    config = ImitationConfig(files=("a.jsonl",), model=str(tmp_path), env="rlvr/SQL-v0")
    (tmp_path / "run" / "config.toml").write_text(config.to_toml())
    assert read_imitation("run") == config
    own = dataclasses.replace(config, env=f"{EVIL}:a/B-v0", loggers=(f"{EVIL}:L",), prompt="x.txt")
    (tmp_path / "run" / "config.toml").write_text(own.to_toml())
    assert main(["sft", "--resume", "run"]) == 2
    error = capsys.readouterr().err
    assert canary() and "sets --env, --prompt, --loggers, which" in error
    assert "agentgym sft --resume run --env evil_module:a/B-v0 --prompt x.txt --loggers evil_module:L" in error
    (tmp_path / "run" / "config.toml").write_text('command = "sft"\nfiles = 3\nmodel = "x"\nzzz = 1\n')
    assert main(["sft", "--resume", "run"]) == 2 and "zzz" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "flags"), [
    ('env = "rlvr/Code-v0"\n[env_options]\nbackend = "process"\nbackend_options = {unsafe = true}', "--env.backend process"),
    ('[agent]\nprompt = "/etc/x.txt"', "--prompt /etc/x.txt"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["model", "run"])
def test_eval_takes_no_sandbox_from_the_folder_of_a_model(text, flags, kind, canary, tmp_path, capsys):
    folder = tmp_path / "model"
    (folder / "checkpoints" / "step-0001").mkdir(parents=True)
    for path in (folder,) if kind == "model" else (folder / "checkpoints" / "step-0001",):
        (path / "config.json").write_text("{}")
        (path / "trainer.pt").touch()
    (folder / "config.toml").write_text(text)
    assert main(["eval", "code", "--model", "model", "--tasks", "1"]) == 2
    error = capsys.readouterr().err
    assert f"agentgym eval code --model model --tasks 1 {flags}" in error and error.count("\n") <= 2
    (folder / "config.toml").write_text(f'env = "{EVIL}:ns/X-v0"\nenv_options = {{a = "b"}}\n[credit]\nname = "{EVIL}:c"')
    assert main(["eval", "sokoban", "--model", "model", "--tasks", "1"]) == 2  # the model is empty; nothing else is used
    assert "says where" not in capsys.readouterr().err and canary()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played") / "eval"
    words = ["eval", "guessnumber", "--policy", "expert", "--tasks", "2", "--out", str(folder), "--quiet"]
    assert main(words) == 0
    return folder


@pytest.fixture
def evaluation(played: Path, tmp_path: Path) -> Path:
    """Return the folder of an evaluation of two tasks, a copy of its own."""
    folder = Path(shutil.copytree(played, tmp_path / "eval"))
    (tmp_path / "judging.py").write_text("def right(episode, task):\n    return True\n")
    return folder


def tampered(folder: Path, **options: object) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["options"] |= options
    path.write_text(json.dumps(manifest))


def renamed(folder: Path, env: str) -> None:
    """Let the episodes name another environment."""
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    (folder / "episodes.jsonl").write_text("".join(json.dumps({**line, "env": env}) + "\n" for line in lines))


def test_rescore_imports_nothing_that_a_folder_names(evaluation: Path, canary, tmp_path, capsys):
    words = ["rescore", "eval", "--verifier", "judging:right"]
    try:
        assert main([*words, "--out", "same"]) == 0
        tampered(evaluation, envs={f"{EVIL}:ns/X-v0": {"options": {"place": "/x y"}}})
        assert main([*words, "--out", "b"]) == 2
        paste = f"agentgym rescore eval --verifier judging:right --out b --env.place '/x y' --env {EVIL}:ns/X-v0"
        assert canary() and paste in (error := capsys.readouterr().err), error
        tampered(evaluation, envs={"rlvr/Code-v0": {"options": {"backend": "process", "seconds": 3.0}}})
        assert main([*words, "--out", "b"]) == 2 and "--env.backend process" in capsys.readouterr().err
        tampered(evaluation, envs={"rlvr/GuessNumber-v0": {"options": {}}})
        renamed(evaluation, f"{EVIL}:ns/X-v0")
        assert main([*words, "--out", "b"]) == 2 and canary()
        assert "stands in a stored file, which imports nothing" in capsys.readouterr().err
        for odd in (3, "x", [1], {"a": 1}, {"a": {"id": 3}}, {"a": {"options": []}}):
            tampered(evaluation, envs=odd)
            assert main([*words, "--out", "b"]) == 2 and canary()
        (evaluation / "config.toml").write_text(f'[[envs]]\nid = "rlvr/Sokoban-v0"\n[[envs]]\nid = "{EVIL}:ns/X-v0"')
        assert main([*words, "--out", "b"]) == 2 and canary()
    finally:
        sys.modules.pop("judging", None)


def test_the_paste_of_rescore_rescores(evaluation: Path, canary, tmp_path, capsys):
    (tmp_path / f"{EVIL}.py").write_text(
        "import agentgym\nfrom agentgym.envs.guess_number import GuessNumber\n"
        "class Own(GuessNumber):\n    settings = ('place',)\n    place = ''\n"
        "agentgym.register('stranger/Own-v0', Own)\n"
    )  # fmt: skip
    tampered(evaluation, envs={f"{EVIL}:stranger/Own-v0": {"options": {"place": "x"}}})
    renamed(evaluation, "stranger/Own-v0")
    words = ["rescore", "eval", "--verifier", "judging:right", "--out", "b"]
    try:
        assert main(words) == 2 and canary()
        paste = capsys.readouterr().err.partition("If you trust these values: ")[2]
        assert main(bash_words(paste)[1:]) == 0 and EVIL in sys.modules
        assert "1.00" in capsys.readouterr().out or (tmp_path / "b" / "summary.json").exists()
    finally:
        sys.modules.pop("judging", None)
        gymnasium.registry.pop("stranger/Own-v0", None)
        DESCRIPTIONS.pop("stranger/Own-v0", None)


READERS = {
    "compare": ["compare", "eval", "eval"],
    "leaderboard": ["leaderboard", "eval", "other"],
    "view": ["view", "eval"],
    "export": ["export", "eval", "--out", "x.parquet"],
    "export of a file": ["export", "eval/episodes.jsonl", "--out", "x.parquet", "--as", "episodes"],
    "sft": ["sft", "eval", "--model", "nothing"],
    "rescore": ["rescore", "eval", "--rewards", "length", "--reward.budget", "5", "--out", "y"],
    "eval into it": ["eval", "guessnumber", "--policy", "expert", "--tasks", "2", "--out", "eval", "--quiet"],
    "watch": ["watch", "eval", "--terminal"],
}


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_readers_of_a_hostile_folder_run_nothing_and_print_nothing_raw(words, evaluation, canary, tmp_path, capfd):
    shutil.copytree(evaluation, tmp_path / "other")
    for folder in (evaluation, tmp_path / "other"):
        name = f"{EVIL}:ns/{HOSTILE}"
        tampered(folder, envs={name: {"options": {"x": HOSTILE}}}, model=f"{EVIL}:Engine", suite=f"{EVIL}", policy=HOSTILE)
        renamed(folder, name)
        (folder / "summary.json").write_text(json.dumps({"suite": HOSTILE, "envs": {}}))
    capfd.readouterr()
    main(words)
    output = "".join(capfd.readouterr())
    assert canary() and "no flag" not in output, output
    assert "\x1b]0;owned" not in output and "\u202e" not in output
    for page in tmp_path.rglob("*.html"):
        assert "\x1b" not in page.read_text(encoding="utf-8")


def test_names_in_stored_files_resolve_to_registered_environments_only(canary):
    assert stored_id("sokoban") == stored_id("rlvr/Sokoban-v0") == "rlvr/Sokoban-v0"
    for name in (
        f"{EVIL}:ns/X-v0",
        f"{EVIL}:rlvr/Sokoban-v0",
        "CartPole-v1",
        "openenv:http://x",
        "harbor:.",
        "",
        ":",
        "a/b",
    ):
        with pytest.raises(UnknownName):
            stored_id(name)
    assert canary()
    assert stored_settings("rlvr/Search-v0", {"retriever": "bm25s", "corpus": None, "top_k": 9, "preset": "tiny"}) == []
    assert stored_settings("rlvr/Search-v0", {"retriever": "dense:/x"}) == [Setting("env.retriever", "dense:/x")]


def test_a_dataset_names_no_module_and_no_sandbox(canary):
    row = {"env": "rlvr/Code-v0", "options": {"split": "train", "backend": "process"}}
    with pytest.raises(BadConfig, match=r"a row of the dataset sets 'env.backend'"):
        of_dataset(row, {})
    assert of_dataset(row, {"env_options": {"backend": "docker"}})[1] == {"split": "train", "backend": "docker"}
    with pytest.raises(BadConfig, match="sets 'env'"):
        of_dataset({"env": f"{EVIL}:ns/X-v0"}, {"env": "other:ns/X-v0"})
    assert canary()


def test_a_command_is_written_as_it_is_read():
    from agentgym.cli.eval import Config

    config = Config(
        envs="code,sql",
        model="x y",
        difficulties=(0, 1),
        quiet=True,
        temperature=0.5,
        prompt="-p.txt",
        env_options={"data": "3", "backend_options": {"unsafe": True}, "x": HOSTILE},
    )
    words = written(config, "eval")
    assert read_flags(Config, words[2:], command="eval") == config
    assert read_flags(Config, shlex.split(quoted(words))[2:], command="eval") == config


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl", "config.toml", "manifest.json", "checkpoints"])
def test_a_resumed_run_writes_through_no_link(name: str, tmp_path: Path):
    """Its files are appended to, cut back and replaced: a link in a stranger's folder would point that elsewhere."""
    record = pytest.importorskip("agentgym.trainers.run.record")
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    (run / "config.toml").write_text(to_toml(TrainConfig()))
    victim.write_text(to_toml(TrainConfig()))
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    before = victim.read_text()
    with pytest.raises(BadData, match="is a link"):
        record.Record.resumed(run, TrainConfig())
    assert victim.read_text() == before


def test_a_whole_file_is_not_written_through_a_link(tmp_path: Path):
    (tmp_path / "report.html.part").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("precious")
    write_whole(tmp_path / "report.html", "page")
    assert (tmp_path / "victim").read_text() == "precious" and (tmp_path / "report.html").read_text() == "page"
