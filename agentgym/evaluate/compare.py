"""Comparison of two evaluations task by task: difference, flipped tasks, and the number of tasks needed to show it."""

import contextlib
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from agentgym.episodes.episode import Episode, fault_share, read_episodes
from agentgym.errors import BadConfig, BadData
from agentgym.evaluate import manifest
from agentgym.evaluate.pass_curves import pass_curves
from agentgym.evaluate.protocol import too_many_faults
from agentgym.evaluate.statistics import Interval, Outcomes, outcomes, paired_difference
from agentgym.evaluate.summary import level
from agentgym.logs.foreign import Logs, NoLog

LEAST_TASKS = 6
"""Minimum number of tasks for significance of a two-sided sign test at 5 %: 2 * 0.5 ** 6 = 0.03."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Success of B against A over the tasks that both finished."""

    a: float
    b: float
    difference: Interval
    """Mean of B - A over tasks, with the interval of `paired_difference`."""
    gained: tuple[str, ...]
    """Tasks, as `ENV TASK`, that B solved in more than half of its attempts and A did not."""
    lost: tuple[str, ...]
    """Tasks, as `ENV TASK`, that A solved in more than half of its attempts and B did not."""
    p_value: float
    """P-value of the exact two-sided sign test over tasks whose rates differ; with one attempt each: McNemar's test."""
    tasks_needed: int | None
    """Number of tasks needed to detect this difference (see `tasks_needed`); None if there is no difference."""
    detectable: float | None
    """Smallest difference that the compared tasks detect with 80 % power; None if the tasks' differences do not vary."""


def compare_folders(a: str | Path, b: str | Path) -> dict[str, object]:
    """Return the comparison of two evaluation or training folders as plain JSON.

    `options` lists the options that differ. `tasks` counts the paired tasks, the tasks that only one side finished, and
    the tasks left out because their instructions differ. `faults` counts faulty episodes per side, and `not_comparable`
    names the sides with too many faults. `pass_at` has pass@k of both sides if every task has several attempts
    (`pass_curves`). `all`, each entry of `envs`, and the rows of their `by_type` and `by_difficulty` have the fields of
    `Comparison`.

    Raises:
        BadConfig: a folder contains no evaluation, or the two have no tasks in common.
    """
    return compare_evaluations(a, b)[0]


def compare_evaluations(a: str | Path, b: str | Path) -> tuple[dict[str, Any], list[list[Episode]]]:
    """Return the result of `compare_folders` and the episodes of both sides.

    Raises:
        BadConfig: a folder contains no evaluation, or the two have no tasks in common.
    """
    sides = [read_evaluation(Path(folder)) for folder in (a, b)]
    left, right = (outcomes(episodes) for _, episodes in sides)
    texts = [{_key(e): e.instruction for e in episodes} for _, episodes in sides]
    common = [name for name in left if name in right]
    paired = [name for name in common if texts[0][name] == texts[1][name]]
    if not paired:
        raise BadConfig(_nothing(Path(a), Path(b), left, right, common))
    place = {_key(e): e for e in sides[0][1]}
    comparison = {
        "a": str(a),
        "b": str(b),
        "same": Path(a).resolve() == Path(b).resolve() or sides[0][1] == sides[1][1],
        "options": _differing(sides[0][0], sides[1][0]),
        "tasks": {
            "paired": len(paired),
            "only_a": len(left) - len(common),
            "only_b": len(right) - len(common),
            "other_instruction": len(common) - len(paired),
        },
        "faults": {name: sum(e.fault for e in side[1]) for name, side in zip("ab", sides, strict=True)},
        "fault_share": {name: fault_share(side[1]) for name, side in zip("ab", sides, strict=True)},
        "not_comparable": [
            f"{name.upper()}: {warning}"
            for name, side in zip("ab", sides, strict=True)
            if (warning := too_many_faults(side[1]))
        ],
        "all": _json(compare(left, right, paired)),
        "pass_at": pass_curves(left, right, paired),
        "envs": {
            env: _env(left, right, {name: place[name] for name in paired if place[name].env == env})
            for env in dict.fromkeys(place[name].env for name in paired)
        },
    }
    return comparison, [episodes for _, episodes in sides]


def _env(a: Outcomes, b: Outcomes, tasks: Mapping[str, Episode]) -> dict[str, object]:
    """Return the comparison over an environment's tasks: in total, by task type and by difficulty."""
    row = _json(compare(a, b, tasks))
    for label, order in (("type", None), ("difficulty", level)):
        names = sorted({episode.labels[label] for episode in tasks.values() if label in episode.labels}, key=order)
        row[f"by_{label}"] = {
            name: _json(compare(a, b, [task for task, e in tasks.items() if e.labels.get(label) == name])) for name in names
        }
    return row


def compare(a: Outcomes, b: Outcomes, tasks: Iterable[str] | None = None) -> Comparison:
    """Return the comparison over the tasks that both sides have; with `tasks`, only over those named there.

    Raises:
        BadConfig: the two sides have no such task in common.
    """
    names = sorted(name for name in (a if tasks is None else tasks) if name in a and name in b)
    if not names:
        raise BadConfig(f"nothing to pair: {len(a)} tasks on one side, {len(b)} on the other, none in common")
    rates_a, rates_b = ([math.fsum(side[name]) / len(side[name]) for name in names] for side in (a, b))
    differences = [y - x for x, y in zip(rates_a, rates_b, strict=True)]
    flipped = [(name, y > 0.5) for name, x, y in zip(names, rates_a, rates_b, strict=True) if (x > 0.5) != (y > 0.5)]
    spread = float(np.std(differences, ddof=1)) if len(names) > 1 else 0.0
    return Comparison(
        a=math.fsum(rates_a) / len(names),
        b=math.fsum(rates_b) / len(names),
        difference=paired_difference({name: b[name] for name in names}, {name: a[name] for name in names}),
        gained=tuple(name for name, up in flipped if up),
        lost=tuple(name for name, up in flipped if not up),
        p_value=sign_test(sum(d > 0 for d in differences), sum(d < 0 for d in differences)),
        tasks_needed=tasks_needed(math.fsum(differences) / len(names), spread),
        detectable=_reach() * spread / math.sqrt(len(names)) if spread else None,
    )


def sign_test(up: int, down: int) -> float:
    """Return the p-value of the exact two-sided sign test for `up` positive and `down` negative signs; 1 if both are 0."""
    tail = sum(math.comb(up + down, k) for k in range(min(up, down) + 1)) / 2 ** (up + down)
    return min(1.0, 2 * tail)


def tasks_needed(difference: float, spread: float, *, power: float = 0.8, level: float = 0.05) -> int | None:
    """Return the number of paired tasks needed to detect a mean difference (two-sided); None for no difference.

    This is the sample size of the paired z-test, `((z(1 - level/2) + z(power)) * spread / difference)^2`, rounded up,
    where `spread` is the standard deviation of the tasks' differences. The result is at least `LEAST_TASKS`.
    """
    if not difference:
        return None
    return max(LEAST_TASKS, math.ceil((_reach(power, level) * spread / difference) ** 2))


def _reach(power: float = 0.8, level: float = 0.05) -> float:
    return NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(power)


def read_evaluation(place: Path) -> tuple[dict[str, object], list[Episode]]:
    """Return the options and the episodes of an evaluation's folder.

    For a training run, return its configuration and the episodes of its last evaluation. `place` can also be a log of
    Harbor, inspect_ai or ATIF.

    Raises:
        BadConfig: the folder contains no evaluation.
    """
    if (place / "config.toml").exists() and (place / "episodes.jsonl").exists():
        return _read_training(place)
    present = [name for name in ("manifest.json", "episodes.jsonl") if (place / name).exists()]
    if len(present) == 2:
        return manifest.read(place / "manifest.json")["options"], read_episodes(place / "episodes.jsonl")
    absent = "no episodes.jsonl" if present == ["manifest.json"] else "no manifest.json"
    if not present and place.exists():
        logs = Logs()
        with contextlib.suppress(NoLog):
            logs.read(place)
            return {"imported": dict(logs.kinds)}, logs.episodes
    raise BadConfig(
        f"{place} holds no evaluation ({absent}) and no log of Harbor, inspect_ai or ATIF: expected a folder that "
        "`agentgym eval` wrote, or such a log"
    )


def _read_training(folder: Path) -> tuple[dict[str, object], list[Episode]]:
    parts: dict[str, list[Episode]] = {}
    for episode in read_episodes(folder / "episodes.jsonl"):
        kind, *when = episode.group_id.split("/")
        if not kind.isdecimal():  # groups of training steps have numbers; these belong to evaluations
            own = when[: 2 if when[:1] == ["sft"] else 1] if kind == "eval" else []
            parts.setdefault("/".join([kind, *own]), []).append(episode)
    if not parts:
        raise BadConfig(f"{folder} is a training run without an evaluation: expected test_tasks or eval_every above 0")
    try:
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{folder / 'config.toml'}: not TOML ({error})") from error
    return {**config, "episodes of": list(parts)[-1]}, list(parts.values())[-1]


def _nothing(a: Path, b: Path, left: Outcomes, right: Outcomes, common: Sequence[str]) -> str:
    """Return the reason why no tasks can be compared."""
    if common:
        return f"nothing to pair: {len(common)} tasks of {a} and {b} have the same ids, but other instructions"
    what = [f"{folder} has {_size(side)}" for folder, side in ((a, left), (b, right))]
    return f"nothing to pair: {'; '.join(what)}. Evaluate both on the same environments, split and number of tasks"


def _size(side: Outcomes) -> str:
    return f"{len(side)} tasks, such as {min(side)!r}" if side else "no episode without an infrastructure error"


def _key(episode: Episode) -> str:
    return f"{episode.env} {episode.task_id}"


def _differing(a: Mapping[str, object], b: Mapping[str, object]) -> dict[str, list[object]]:
    return {name: [a.get(name), b.get(name)] for name in sorted({*a, *b}) if a.get(name) != b.get(name)}


def _json(comparison: Comparison) -> dict[str, object]:
    return {**asdict(comparison), "gained": list(comparison.gained), "lost": list(comparison.lost)}
