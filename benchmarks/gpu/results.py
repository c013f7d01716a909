"""The file of results: one line of JSON for each part of a cell, written for good as soon as it is known."""

import json
import os
from pathlib import Path
from typing import Any

NAME = "results.jsonl"


def read(out: Path) -> list[dict[str, Any]]:
    """Return the lines; one that was cut off, as by a machine that was taken away, is left out."""
    file = out / NAME
    lines: list[dict[str, Any]] = []
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def append(out: Path, line: dict[str, Any]) -> None:
    """Add a line, behind one that was cut off too."""
    with (out / NAME).open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write((json.dumps(line) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
