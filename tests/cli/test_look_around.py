"""The command line as someone at a terminal meets it: envs, play, check, doctor, and everything that goes wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import agentgym
from agentgym.agents import OracleAgent
from agentgym.cli import COMMANDS, main
from agentgym.cli.flags import value_of
from agentgym.cli.help_text import folded_text
from agentgym.core.screen import printable

ALL = "`agentgym envs` lists all; one in a module of yours is MODULE:NAMESPACE/NAME-v0."


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def typed(monkeypatch):
    def give(*lines):
        words = iter(lines)

        def read(prompt=""):
            try:
                return next(words)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", read)

    return give


def test_help_teaches(run):
    for arguments in ((), ("--help",), ("help",)):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "") and "examples:" in out and all(name in out for name in COMMANDS)
    assert run("--version")[1].startswith("agentgym 0.")


@pytest.mark.parametrize(
    "name",
    [*COMMANDS, "serve env", "serve mcp", "serve gateway", "serve retriever", "swe make", "swe predictions", "swe score"],
)
def test_help_has_two_examples_and_fits_80_columns(run, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(*name.split(), "--help")
    assert code == 0 and "options" in out
    assert len(re.findall(rf"^  (?:[A-Z_]+=\S+ )?agentgym {name}( |$)", out, re.MULTILINE)) >= 2
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r"\{None\}|default: (None|'')?\)|\w {3,}\\\\$|^[│|] +[│|]$", out, re.MULTILINE)


def test_the_list_of_commands_fits_80_columns(run):
    assert max(map(len, run("--help")[1].splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "flag"),
    [(name, "--env.KEY") for name in ("envs", "play", "check", "init-policy", "eval", "serve env", "serve mcp")]
    + [("eval", "--engine.KEY"), ("serve", "--engine.KEY"), ("rescore", "--reward.KEY"), ("swe score", "--backend.KEY")]
    + [("export", "--credit.KEY"), ("sft", "--logger.KEY")],
)
def test_help_shows_the_options_of_what_is_named(run, name, flag, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert re.search(rf"\n  {re.escape(flag)} VALUE\s+\w", run(*name.split(), "--help")[1])


def test_what_help_shows_of_a_command_is_fitted_and_stays_a_command():
    text = """One sentence that is longer than
    the width.

    agentgym do this --with "a lot" --of things --that go on      what it is for
    agentgym do        less
    """
    assert (
        folded_text(text, 200).splitlines()[2]
        == '  agentgym do this --with "a lot" --of things --that go on  what it is for'
    )
    assert folded_text(text, 40).splitlines() == [
        "One sentence that is longer than the",
        "width.",
        "",
        '  agentgym do this --with "a lot" \\',
        "    --of things --that go on",
        "      what it is for",
        "  agentgym do",
        "      less",
    ]
    assert folded_text("A_B=… agentgym do   what it is for", 30).splitlines() == [
        "  A_B=… agentgym do",
        "      what it is for",
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_a_script_that_the_shell_reads(run, shell, tmp_path):
    code, script, _ = run("completion", shell)
    assert code == 0 and "--retry-faults" in script and "--group-size" in script
    if shutil.which(shell) and shell == "bash":
        (tmp_path / "script").write_text(script)
        ask = "source ./script; f=$(complete -p agentgym); f=${f##*-F }; f=${f%% *}; "
        ask += 'COMP_WORDS=(agentgym eval --retry); COMP_CWORD=2; $f agentgym --retry eval; echo "${COMPREPLY[@]}"'
        output = subprocess.run([shell, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert output.strip() == "--retry-faults"


def test_a_seed_below_0_and_an_environment_without_a_name_are_refused(run):
    assert run("play", "guessnumber", "--seed", "-1")[0::2] == (2, "error: --seed is -1; expected 0 or more\n")
    code, _, error = run("check", "harbor:")
    assert code == 2 and "'harbor:' names no environment" in error


def test_short_names_stand_for_ids_everywhere(run, tmp_path):
    assert run("play", "GuessNumber", "--policy", "oracle")[1].startswith("╭─ rlvr/GuessNumber-v0 ")
    assert run("envs", "guessnumber", "--tasks", "1", "--difficulties", "0")[1].startswith("rlvr/GuessNumber-v0 ")
    assert "info schema" in run("check", "guessnumber", "--check", "info schema")[1]
    assert agentgym.collect(OracleAgent(), "guessnumber")[0].env == "rlvr/GuessNumber-v0"


@pytest.mark.parametrize("command", ["check", "envs"])
def test_options_of_an_environment_are_no_options_of_the_command(run, command):
    """`--env.seed` names an option that no environment has; it is not taken for the check's own seed."""
    code, _, error = run(command, "guessnumber", "--env.seed", "3")
    assert code == 2 and "GuessNumber" in error and "seed" in error and "Traceback" not in error, error


def test_a_name_is_suggested_only_where_it_is_close(run):
    assert run("play", "rlvr/Nope-v0")[2] == f"error: no environment 'rlvr/Nope-v0'. {ALL}\n"
    assert "Did you mean" not in run("play", "nope")[2]
    assert "Did you mean 'tictactoe'?" in run("play", "tictaktoe")[2]


def test_lists_for_programs(run):
    listed = {row["id"]: row for row in json.loads(run("envs", "--json")[1])}
    assert listed["rlvr/GuessNumber-v0"]["oracle"] is True and listed["rlvr/SQL-v0"]["tools"]
    assert "AGENTGYM_DATA" in listed["rlvr/WebShop-v0"]["missing"]
    assert json.loads(run("doctor", "--json")[1])["torch"]["for"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("env",), "error: no command 'env'. Did you mean 'envs'? `agentgym --help` lists all.\n"),
        (
            ("check", "rlvr/Serch-v0"),
            f"error: no environment 'rlvr/Serch-v0'. Did you mean 'rlvr/Search-v0'? {ALL}\n",
        ),
        (
            ("play", "rlvr/Search-v0", "--sed", "3"),
            "error: no flag '--sed'. Did you mean '--seed'? `agentgym play --help` shows all.\n",
        ),
        (("play", "rlvr/Search-v0", "--split", "tran"), "error: no split of Search 'tran'. Did you mean 'train'?"),
        (("play", "rlvr/FrozenLake-v0", "--env.slp", "1"), "error: no option of FrozenLake 'slp'. Did you mean 'slip'?"),
        (("play", "rlvr/FrozenLake-v0", "--env.slip"), "error: --env.slip needs a value"),
        (("check", "rlvr/FrozenLake-v0", "--check", "same agin"), "error: no check 'same agin'. Did you mean 'same again'?"),
        (("check", "no_module:me/X-v0"), "error: no module 'no_module' to take the environment from."),
        (("check", "\x1b[31mred"), "error: no environment '\\x1b[31mred'."),
    ],
)
def test_mistakes_are_one_line_and_code_2(run, arguments, says):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and err.startswith(says) and err.count("\n") == 1 and "\x1b" not in err


def test_a_value_of_the_wrong_type_is_code_2(run):
    code, _, err = run("play", "rlvr/FrozenLake-v0", "--seed", "x")
    assert code == 2 and "--seed" in err


@pytest.mark.parametrize("policy", ["oracle", "expert", "random"])
def test_others_play(run, policy):
    code, out, _ = run("play", "rlvr/GuessNumber-v0", "--seed", "3", "--policy", policy)
    assert code == 0 and "> " in out and " after " in out


def test_you_play(run, typed):
    typed("jump", "?", "right", "!!")
    code, out, _ = run("play", "rlvr/FrozenLake-v0", "--env.slip", "0", "--seed", "1")
    assert code == 0 and "is not a move" in out and "left" in out and "success after " in out and "reward 1" in out


def test_you_leave(run, typed):
    typed("up")
    code, out, _ = run("play", "rlvr/FrozenLake-v0")
    assert code == 0 and out.endswith("left\n")


def test_a_backslash_sends_what_would_be_a_command(run, typed):
    typed("\\?", "\\!")
    assert "'?' is not a number" in run("play", "rlvr/GuessNumber-v0")[1]


def test_an_environment_cannot_steer_the_terminal(run, typed, capsys):
    typed("[bold red]x[/] \x1b[2J\x07 \u202e")
    out = run("play", "rlvr/GuessNumber-v0")[1]
    assert "[bold red]x[/]" in out and "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert printable("a\x1b[0m\n\ud800\u2066b") == "a\\x1b[0m\n\\ud800\\u2066b"


def test_check_answers_by_code_and_shows_the_sequence(run, tmp_path, monkeypatch):
    (tmp_path / "bad_env.py").write_text(
        "import agentgym\n"
        "class Bad(agentgym.TextEnv):\n"
        "    'An environment that minds the word boo.'\n"
        "    def begin(self, task): return 'Say [red]something.'\n"
        "    def act(self, action): return {}['boo'] if action == 'boo' else 'Yes.'\n"
        "    def admissible(self): return ['hello', 'boo']\n"
        "    def generate(self, rng, difficulty): return agentgym.Task(data={'n': int(rng.integers(1000))})\n"
        "agentgym.register('me/Bad-v0', Bad)\n"
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("check", "bad_env:me/Bad-v0", "--check", "admissible is valid", "--check", "horizons")
    assert code == 1 and "KeyError: 'boo'" in out and "actions: ['boo']" in out and "1 checks pass, 1 broken" in out
    assert run("check", "bad_env:me/Bad-v0", "--check", "horizons")[0] == 0
    agentgym.make("bad_env:me/Bad-v0")  # which `check` did in a process of its own
    assert "An environment that minds the word boo." in run("envs")[1]


def test_the_card_has_a_column_per_difficulty(run):
    code, out, _ = run("envs", "rlvr/GuessNumber-v0", "--tasks", "4", "--difficulties", "0", "2")
    assert code == 0 and "difficulty 0  difficulty 2" in out and "success: expert" in out and "horizon   12" in out


def test_doctor_names_everything(run):
    code, out, _ = run("doctor")
    assert code == 0 and all(name in out for name in ("torch", "vllm", "chromium", "bubblewrap", "docker", "java", "GPU"))


def test_values_are_json_where_they_are_json():
    assert [value_of(text) for text in ("3", "0.5", "true", "[1, 2]", "abc", "1 2", "[" * 100_000)][:6] == [
        3,
        0.5,
        True,
        [1, 2],
        "abc",
        "1 2",
    ]


def test_interrupt_is_130():
    process = subprocess.Popen(
        [sys.executable, "-m", "agentgym", "play", "rlvr/GuessNumber-v0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()  # it waits for input now, or is about to
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and err == b"\ninterrupted\n"


def test_a_closed_pipe_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "agentgym", "--help"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.stderr == b""


def test_options_of_a_recipe_stay_with_its_algorithm_and_its_environment():
    from agentgym.cli.train import read

    own = read(["household"]).config
    assert own.credit_options and own.env_options and own.valid_split == "valid_seen"
    other = read(["household", "--credit", "my_module:last_turn", "--credit.scale", "0.5"]).config
    assert other.credit_options == {"scale": 0.5} and other.env_options == own.env_options
    env = read(["household", "--env", "rlvr/Search-v0"]).config
    assert (env.env_options, env.valid_split, env.test_split) == ({}, "", "")
    assert read(["household", "--credit.eps", "1"]).config.credit_options == {**own.credit_options, "eps": 1}


def test_a_name_that_is_close_to_none_is_answered_with_all(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "guessnumber", "--check", "nope"]) == 2
    assert "error: no check 'nope'. Known: admissible is valid, answers stay hidden," in capsys.readouterr().err


def test_documents_that_are_not_there_are_not_called_damaged(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "retriever", "--corpus", "nothing.jsonl"]) == 2
    assert "error: nothing.jsonl: No such file or directory; expected a file" in capsys.readouterr().err


def test_no_help_calls_an_environment_an_environment(capsys: pytest.CaptureFixture[str]):
    for command in sorted(COMMANDS):
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
    assert main(["--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if re.search(r"\bworlds?\b", line, re.I)] == []


SLOW = {
    "init-policy": "init-policy guessnumber --out made",
    "train --plan": "train household --plan",
    "train --plan --on": "train household-1.5b --plan --on 80GB --json",
    "qualify": "qualify tinker:http://127.0.0.1:9",
    "serve gateway": "serve gateway --model policy --port 0",
    "train": "train household --processes 1 --out run",
    "eval": "eval guessnumber --model policy --out eval",
}


def test_something_is_on_the_screen_before_torch_is_imported(tmp_path):
    """Loading it takes five seconds. All in one process: the first word printed ends each command."""
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "config.json").write_text("{}")
    program = """
import sys
from agentgym.cli import main
class Seen(BaseException):
    pass
class Stream:
    def write(self, text):
        if text.strip():
            raise Seen(text)
    def flush(self):
        pass
    def isatty(self):
        return False
screen, error = sys.stdout, sys.stderr
for words in sys.argv[1:]:
    sys.stdout = sys.stderr = Stream()
    try:
        said = main(words.split())
    except Seen as seen:
        said = seen
    finally:
        sys.stdout, sys.stderr = screen, error
    print(repr((words, str(said), "torch" in sys.modules or "transformers" in sys.modules)))
"""
    command = [sys.executable, "-c", program, *SLOW.values()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        words, printed, imported = eval(line)
        assert not imported and not printed.startswith("error"), (words, printed)
    assert len(done.stdout.splitlines()) == len(SLOW)
