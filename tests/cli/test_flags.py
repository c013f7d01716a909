"""Flags read from a dataclass: what is wrong is said in the words of whoever checks it, in one line."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from agentgym.cli.flags import read_flags
from agentgym.cli.train import quiet
from agentgym.errors import BadConfig
from agentgym.options import Alias, Options, Positional, Repeated


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
    return read_flags(Walk, words, command="walk", default={"steps": 5, "shoe_options": {"size": 42}})


def test_flags_override_the_default() -> None:
    assert read() == Walk(5, {"size": 42})
    made = read("--steps", "7", "--shoe.colour", "red", "--shoe.size=43")
    assert made == Walk(7, {"size": 43, "colour": "red"}) and type(made) is Walk


def test_a_refused_value_is_the_dataclass_own_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadConfig, match=r"^steps is 0; expected at least 1$"):
        read("--steps", "0")
    assert capsys.readouterr() == ("", "")


def test_a_value_of_the_wrong_type() -> None:
    with pytest.raises(BadConfig, match=r"^--steps: expected a whole number, not 'far'\. `agentgym walk --help` shows all$"):
        read("--steps", "far")


@dataclass(frozen=True)
class Stay:
    """A stay."""

    nights: int | None = None
    """How many."""
    rooms: tuple[int, ...] | None = None
    """Which."""
    price: float | None = None
    """What it costs."""


def test_a_value_of_the_wrong_type_for_a_flag_that_may_be_absent() -> None:
    for words, message in (
        (["--nights", "x"], "--nights: expected a whole number, not 'x'"),
        (["--rooms", "1", "x"], "--rooms: expected a whole number, not 'x'"),
        (["--price", "x"], "--price: expected a number, not 'x'"),
    ):
        with pytest.raises(BadConfig) as error:
            read_flags(Stay, words, command="stay")
        assert str(error.value) == f"{message}. `agentgym stay --help` shows all"
    assert read_flags(Stay, ["--rooms", "1", "2"], command="stay").rooms == (1, 2)


@dataclass(frozen=True)
class Ride:
    """A ride."""

    horse: Positional[str]
    """Who carries you."""
    to: str
    """Where to. Not too
    far."""


def test_what_is_missing_is_a_sentence() -> None:
    for words, message in (
        (["--to", "x"], "HORSE is missing: Who carries you."),
        ([], "HORSE is missing: Who carries you; --to STR is missing: Where to. Not too far."),
    ):
        with pytest.raises(BadConfig) as error:
            read_flags(Ride, words, command="ride")
        assert str(error.value) == f"{message} `agentgym ride --help` shows all"


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


@dataclass(frozen=True)
class Meal:
    """A meal."""

    course: Annotated[Positional[str], Alias("dish")]
    """What is eaten, 100% of it."""
    guests: Positional[tuple[int, ...]] = (1,)
    """Ages of the guests."""
    place: Annotated[Literal["home", "inn"], Alias("at")] = "home"
    """Where."""
    without: Repeated[str] = ()
    """What to leave out; may be given several times."""
    hot_water: bool = True
    """With tea."""
    degrees: float = 20.0
    """How warm it is outside."""
    day: int | None = 3
    """Day of the month; None: every day."""


def meal(*words: str) -> Meal:
    return read_flags(Meal, words, command="meal")


def test_every_kind_of_field_is_read() -> None:
    assert meal("soup") == Meal("soup")
    assert meal("--at", "inn", "soup", "--no-hot-water", "4", "5") == Meal("soup", (4, 5), "inn", hot_water=False)
    assert meal("soup", "--place=inn", "--without", "salt", "--without", "egg").without == ("salt", "egg")
    assert meal("soup", "--hot_water", "--day", "None") == Meal("soup", day=None)
    assert [meal("soup", "--degrees", word).degrees for word in ("-3", "-2.5e1", "-inf")] == [-3, -25, float("-inf")]
    assert meal("--", "--at").course == "--at"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["soup", "--at", "sea"], "--at/--place: expected one of home, inn, not 'sea'"),
        (["soup", "--degrees"], "--degrees: expected one argument"),
        (["soup", "--hot-water=1"], "--hot-water takes no value, not '1'"),
        (["soup", "x"], "GUESTS: expected a whole number, not 'x'"),
        (["soup", "-x"], "no flag '-x'"),
        (["soup", "--no-place"], "no flag '--no-place'. Did you mean '--place'?"),
        (["soup", "--plac", "inn"], "no flag '--plac'. Did you mean '--place'?"),
    ],
)
def test_a_refusal_names_the_flag_and_the_value(words: list[str], message: str) -> None:
    with pytest.raises(BadConfig, match=f"^{re.escape(message)}.*`agentgym meal --help` shows all"):
        meal(*words)


def test_the_help_of_a_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit, match="0"):
        meal("--help")
    assert (
        capsys.readouterr().out
        == """\
usage: agentgym meal DISH [GUESTS ...] [OPTIONS]

positional arguments:
  DISH              What is eaten, 100% of it. (required)
  GUESTS            Ages of the guests. (default: 1)

options:
  -h, --help        show this help message and exit
  --at, --place {home,inn}
                    Where. (default: home)
  --without STR     What to leave out; may be given several
                    times.
  --hot-water, --no-hot-water
                    With tea. (default: True)
  --degrees FLOAT   How warm it is outside. (default: 20.0)
  --day INT         Day of the month; None: every day.
                    (default: 3)
"""
    )
