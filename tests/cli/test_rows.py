"""Rows of numbers: in line at every width, no name broken, nothing hostile let through."""

import io

import pytest
from rich.console import Console

from agentgym.cli.rows import Rows

LONG = "  pick_clean_then_place_in_recep"


def printed(width: int, *names: str) -> list[str]:
    rows = Rows("environment", ("tasks", "B - A [95 %]"))
    for name in names:
        rows.add(name, ("100", "-10.0 [-100.0, +100.0]"))
    file = io.StringIO()
    Console(file=file, width=width).print(rows, soft_wrap=True)
    return file.getvalue().splitlines()


def test_numbers_stand_in_columns_beside_their_names() -> None:
    assert printed(80, "rlvr/Household-v0", LONG) == [
        "environment                       tasks            B - A [95 %]",
        "rlvr/Household-v0                   100  -10.0 [-100.0, +100.0]",
        "  pick_clean_then_place_in_recep    100  -10.0 [-100.0, +100.0]",
    ]


def test_a_name_without_room_gets_a_line_of_its_own() -> None:
    assert printed(50, "short", LONG) == [
        "environment          tasks            B - A [95 %]",
        "short                  100  -10.0 [-100.0, +100.0]",
        "  pick_clean_then_place_in_recep",
        "                       100  -10.0 [-100.0, +100.0]",
    ]


@pytest.mark.parametrize("width", [20, 31, 40, 64, 200])
def test_no_name_and_no_number_is_ever_broken(width: int) -> None:
    text = "\n".join(printed(width, "short", LONG))
    assert LONG in text and text.count("  100  -10.0 [-100.0, +100.0]") == 2


def test_hostile_and_wide_names() -> None:
    lines = printed(80, "\x1b[31m[bold]red[/bold]\nb", "世界")
    assert lines[1].startswith("\\x1b[31m[bold]red[/bold] b ") and len(lines[2]) == len(lines[1]) - 2
