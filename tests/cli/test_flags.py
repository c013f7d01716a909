"""Flags read from a dataclass: what is wrong is said in the words of whoever checks it, in one line."""

from dataclasses import dataclass, field

import pytest
import tyro

from agentgym.cli.flags import read_flags
from agentgym.cli.train import quiet
from agentgym.errors import BadConfig
from agentgym.options import Options


@dataclass(frozen=True)
class Walk:
    """A walk."""

    steps: int = 3
    """How far."""
    shoe_options: Options = field(default_factory=dict)
    """Options of the shoes."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadConfig(f"steps is {self.steps}; expected at least 1")


def read(*words: str) -> Walk:
    return read_flags(Walk, words, command="walk", default=Walk(steps=5, shoe_options={"size": 42}))


def test_flags_override_the_default() -> None:
    assert read() == Walk(5, {"size": 42})
    made = read("--steps", "7", "--shoe.colour", "red", "--shoe.size=43")
    assert made == Walk(7, {"size": 43, "colour": "red"}) and type(made) is Walk


def test_a_refused_value_is_the_dataclass_own_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadConfig, match=r"^steps is 0; expected at least 1$"):
        read("--steps", "0")
    assert capsys.readouterr() == ("", "")


def test_a_value_of_the_wrong_type_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read("--steps", "far")
    assert capsys.readouterr().err.startswith("error: --steps: expected a whole number, not 'far'. `agentgym walk --help`")


@dataclass(frozen=True)
class Stay:
    """A stay."""

    nights: int | None = None
    """How many."""
    rooms: tuple[int, ...] | None = None
    """Which."""
    price: float | None = None
    """What it costs."""


def test_a_value_of_the_wrong_type_for_a_flag_that_may_be_absent(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--nights", "x"], "--nights: expected a whole number, not 'x'"),
        (["--rooms", "1", "x"], "--rooms: expected whole numbers, not '1', 'x'"),
        (["--price", "x"], "--price: expected a number, not 'x'"),
    ):
        with pytest.raises(SystemExit, match="2"):
            read_flags(Stay, words, command="stay")
        assert capsys.readouterr().err == f"error: {said}. `agentgym stay --help` shows all\n"
    assert read_flags(Stay, ["--rooms", "1", "2"], command="stay").rooms == (1, 2)


@dataclass(frozen=True)
class Ride:
    """A ride."""

    horse: tyro.conf.Positional[str]
    """Who carries you."""
    to: str
    """Where to. Not too
    far."""


def test_what_is_missing_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--to", "x"], "HORSE is missing: Who carries you."),
        ([], "HORSE is missing: Who carries you; --to STR is missing: Where to. Not too far."),
    ):
        with pytest.raises(SystemExit, match="2"):
            read_flags(Ride, words, command="ride")
        assert capsys.readouterr().err == f"error: {said} `agentgym ride --help` shows all\n"


def test_help_does_not_keep_the_line_breaks_of_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        read_flags(Ride, ["--help"], command="ride")
    assert "Where to. Not too far." in capsys.readouterr().out


def test_an_unknown_flag_names_the_closest() -> None:
    with pytest.raises(BadConfig, match=r"no flag '--step'. Did you mean '--steps'"):
        read("--step", "2")


def test_transformers_is_told_that_scipy_and_scikit_learn_are_absent(monkeypatch):
    from transformers import utils

    for module in (utils, utils.import_utils):
        for name in ("is_sklearn_available", "is_scipy_available"):
            monkeypatch.setattr(module, name, lambda: True)  # and put back at the end
    quiet()
    assert not utils.is_sklearn_available() and not utils.import_utils.is_scipy_available()
