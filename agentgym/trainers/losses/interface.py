"""Choosing a loss: the table of names and the decorator; what they compute is in `losses`, which needs torch."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.errors import BadConfig
from agentgym.trainers.config.settings import LossConfig
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.seam import Seam, Stage, Target, options_of, parameters

LOSSES = Seam(
    "loss",
    {
        "clip": "agentgym.trainers.losses.policy:clip",
        **{
            name: f"agentgym.trainers.losses.{name}:{name}"
            for name in ("cispo", "dppo", "epo", "gspo", "high_entropy", "icepop", "llds", "refuel", "simko")
        },
        **{name: f"agentgym.trainers.losses.covariance:{name}" for name in ("clip_cov", "kl_cov")},
    },
    {"needs": (), "choose": None, "marks": False, "top": "", "present": False},
)
FRAME = ("loss_aggregation", "constant", "kl", "kl_kind", "old_logprobs", "tis_cap")
"""Fields of `LossConfig` that hold for every loss."""


def loss(
    name: str,
    needs: Sequence[str] = (),
    choose: Callable[..., object] | None = None,
    *,
    marks: bool = False,
    top: str = "",
    present: bool = False,
) -> Callable[[Target], Target]:
    """Declare a function `(tokens, *, options) -> loss of each token`, and give it a short name.

    It may return a pair, the second a mapping from names to numbers of each token whose means are logged. What it returns
    is multiplied by the weight of each token (`loss_aggregation`), by the correction for an engine that rounds otherwise
    (`tis_cap`), and added up; a KL penalty comes on top. Keyword-only parameters are its options; those with the name of a
    field of `LossConfig`, such as `clip_low`, have their value from there.

    `needs` names what is computed into `turn.extra` first and handed on in `tokens.extra`. `choose` is called with the
    `Update` before anything is packed, and returns a factor for the weight of each of its tokens: that is how a loss
    leaves out tokens by their rank in the whole update. Its keyword-only parameters have the values of the loss's options
    of the same name, and `step` is handed in. Of several processes each sees, ranks and counts the tokens of its own rows;
    what a token left in counts does not depend on how many were left out. With `marks` the factors change no weight: the
    loss finds them as `tokens.extra["chosen"]`. `top` names the option that says of how many of the likeliest tokens the
    log-probabilities are wanted, as `tokens.top`. With `present` the tokens are scored once more before each update, and
    `choose` finds what they are now in `update.present`; the update then holds all rows of the step (`minibatches` 1).
    """
    return LOSSES.declare(name, needs=tuple(needs), choose=choose, marks=marks, top=top, present=present)


def resolve_loss(config: LossConfig) -> Stage:
    """Return the loss of a run with its options.

    Raises UnknownName or BadConfig with the closest name, and BadConfig for a field that would do nothing with it.
    """
    fields = {f.name: f.default for f in dataclasses.fields(LossConfig) if f.name not in ("loss", "loss_options", *FRAME)}
    known = options_of(LOSSES.looked_up(config.loss).target)
    for name, default in fields.items():
        if name not in known and getattr(config, name) != default:
            raise BadConfig(f"{name} is {getattr(config, name)} and has no effect with loss {config.loss!r}: leave it out")
    taken: Mapping[str, Any] = {name: getattr(config, name) for name in fields if name in known}
    loss = LOSSES.resolve(config.loss, {**taken, **config.loss_options})
    for need in loss.attributes["needs"]:
        NEEDS.looked_up(need)
    return loss


def top_of(loss: Stage) -> int:
    """Return of how many of the likeliest tokens a loss wants the log-probabilities."""
    name = loss.attributes["top"]
    return int(loss.option(name, 0)) if name else 0


def factors(loss: Stage, update: Any, step: int) -> Any:
    """Return what a loss's `choose` says of the tokens of an update."""
    choose = loss.attributes["choose"]
    own = {name: loss.option(name, parameter.default) for name, parameter in options_of(choose).items()}
    return choose(update, **own, **({"step": step} if "step" in parameters(choose) else {}))
