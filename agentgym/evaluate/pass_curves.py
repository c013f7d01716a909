"""pass@k curves of two evaluations: does training solve new tasks, or only raise the success rate of solvable tasks?

Reinforcement learning often wins at k = 1 and loses to the base model at large k (arXiv 2504.13837).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.evaluate.attempts import mean_over_tasks, pass_at_k, useful_ks
from agentgym.evaluate.statistics import Outcomes


def pass_curves(a: Outcomes, b: Outcomes, tasks: Sequence[str]) -> dict[str, Any]:
    """Return pass@k over `tasks`, which both sides have: `a` and `b` (by k as text) and `crossing`.

    The largest k is the fewest attempts at a task on either side. `crossing` is the smallest reported k from which the
    side that is worse at k = 1 stays better; None if there is no such k. The result is empty if a task has a single
    attempt on either side.
    """
    fewest = min((len(side[name]) for name in tasks for side in (a, b)), default=0)
    if fewest < 2:
        return {}
    ks = useful_ks(fewest)
    curves = [[mean_over_tasks({name: side[name] for name in tasks}, k, pass_at_k) for k in ks] for side in (a, b)]
    gaps = [y - x for x, y in zip(*curves, strict=True)]
    turned = [gap * gaps[0] < 0 for gap in gaps]
    first = next((place for place in range(len(ks)) if all(turned[place:])), None)
    return {**{name: dict(zip(map(str, ks), curve, strict=True)) for name, curve in zip("ab", curves, strict=True)},
            "crossing": None if first is None else ks[first]}  # fmt: skip


def sentences(curves: Mapping[str, Any]) -> list[str]:
    """Return the curves as text: a line with the rates, and a line about the crossing if there is one."""
    if not curves:
        return []
    rates = ", ".join(f"k={k} {100 * curves['a'][k]:.1f} and {100 * curves['b'][k]:.1f}" for k in curves["a"])
    lines = [f"pass@k in % of A and B: {rates}"]
    if curves["crossing"] is not None:
        better = "A" if curves["a"]["1"] < curves["b"]["1"] else "B"
        lines.append(f"from k = {curves['crossing']} on {better} solves more tasks, though it is worse in one attempt")
    return lines
