"""docs/configuration.py: every setting of a run and of an evaluation, with its default and its text."""

import importlib.util
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from agentgym.cli.eval import Config
from agentgym.options import Alias
from agentgym.trainers.config.train_config import TrainConfig

SPEC = importlib.util.spec_from_file_location("configuration", Path(__file__).parents[2] / "docs" / "configuration.py")
configuration = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(configuration)


@dataclass(frozen=True)
class Lamp:
    """A lamp."""

    color: Literal["red", "blue"] = "red"
    """Color | of its light."""
    watts: Annotated[tuple[int, ...], Alias("power")] = (5, 60)
    """Power of each bulb,
    in watts."""
    lamp_options: dict[str, object] = None  # type: ignore[assignment]
    """Options."""
    name: str = ""
    """Label."""


def test_the_rows_of_a_hand_made_dataclass():
    assert list(configuration.rows(Lamp))[2:-1] == [
        "| `--color` | `red`, `blue` | `red` | Color \\| of its light. |",
        "| `--watts` | tuple[int, ...] | `5 60` | Power of each bulb, in watts. |",
        "| `--lamp.KEY` | dict[str, object] |  | Options. |",
        "| `--name` | str |  | Label. |",
    ]


def test_every_setting_is_there_once():
    page = configuration.page()
    train, _, evaluate = page.partition("## Evaluation")
    for text, kind in ((train, TrainConfig), (evaluate, Config)):
        for field in fields(kind):
            if field.name == "envs" and kind is TrainConfig:  # the table [[envs]]
                continue
            options = field.name.endswith("options")
            flag = f"--{field.name.removesuffix('_options')}.KEY" if options else f"--{field.name.replace('_', '-')}"
            assert text.count(f"\n| `{flag}` |") == 1, flag
    assert "### [[envs]]" in train and "| `weight` | float | `1.0` | " in train
