"""The loss stage: table of names and decorator. The functions are in the other files of this folder and import torch."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentgym.errors import BadConfig
from agentgym.trainers.config.settings import LossConfig
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.seam import Seam, Stage, Target, options_of, parameters

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.run.stages import FreshRun

LOSSES = Seam(
    "loss",
    {
        "clip": "agentgym.trainers.losses.policy:clip",
        **{
            name: f"agentgym.trainers.losses.{name}:{name}"
            for name in (
                "aepo",
                "awr",
                "cispo",
                "dppo",
                "entropy_band",
                "epo",
                "gspo",
                "high_entropy",
                "icepop",
                "llds",
                "refuel",
                "simko",
                "turn_dpo",
            )
        },
        **{name: f"agentgym.trainers.losses.covariance:{name}" for name in ("clip_cov", "kl_cov")},
    },
    {"needs": (), "choose": None, "marks": False, "top": "", "present": False, "check": None},
)
FRAME = ("loss_aggregation", "constant", "kl", "kl_kind", "entropy_bonus", "old_logprobs", "tis_cap")
"""Fields of `LossConfig` that apply to every loss."""


def loss(
    name: str,
    needs: Sequence[str] = (),
    choose: Callable[..., object] | None = None,
    *,
    marks: bool = False,
    top: str = "",
    present: bool = False,
    check: Callable[["TrainConfig"], None] | None = None,
) -> Callable[[Target], Target]:
    """Declare a function `(tokens, *, options) -> loss per token`, [trained], and give it a short name.

    It may also return a pair of the loss and a mapping from names to numbers per token; their means are logged. The run
    multiplies each token's loss by its weight (`loss_aggregation`) and by the correction for an engine that rounds
    differently (`tis_cap`), sums, and adds a KL penalty and an entropy bonus. Keyword-only parameters are the loss's
    options; those named like a field of `LossConfig`, such as `clip_low`, get that field's value.

    `needs` names values that are computed into `turn.extra` first and passed in `tokens.extra`. `top` names the option
    that says how many of the likeliest tokens have their log-probabilities passed as `tokens.top`. `check` is called
    with the run's settings before anything is loaded, and raises BadConfig if the loss would have no effect.

    `choose` is called with the `Update` before packing and returns a factor for the weight of each token, so that a
    loss can exclude tokens by their rank in the whole update. Its keyword-only parameters get the values of the loss's
    options of the same name, and `step`. With several processes, each process ranks and counts the tokens of its own
    rows; the weight of the remaining tokens does not depend on the number of excluded ones. With `marks`, the factors
    do not change any weight; the loss reads them as `tokens.extra["chosen"]`. With `present`, the tokens are scored
    again before each update and `choose` gets the result in `update.present`; the update then holds all rows of the
    step (`minibatches` must be 1).
    """
    return LOSSES.declare(name, needs=tuple(needs), choose=choose, marks=marks, top=top, present=present, check=check)


def resolve_loss(config: LossConfig) -> Stage:
    """Return the loss of a run with its options.

    Raises:
        UnknownName: there is no such loss or need.
        BadConfig: an option is unknown or invalid, or a field has no effect with this loss.
    """
    fields = _own_fields()
    known = options_of(LOSSES.looked_up(config.loss).target)
    for name, default in fields.items():
        if name not in known and getattr(config, name) != default:
            raise BadConfig(f"{name} is {getattr(config, name)} and has no effect with loss {config.loss!r}: leave it out")
    options: Mapping[str, Any] = {name: getattr(config, name) for name in fields if name in known}
    loss = LOSSES.resolve(config.loss, {**options, **config.loss_options})
    for need in loss.attributes["needs"]:
        NEEDS.looked_up(need)
    return loss


def unread(name: str) -> dict[str, object]:
    """Return the `LossConfig` fields that a loss does not read, with their defaults; {} if torch is not installed."""
    try:
        known = options_of(LOSSES.looked_up(name).target)
    except ModuleNotFoundError:
        return {}
    return {name: default for name, default in _own_fields().items() if name not in known}


def _own_fields() -> dict[str, object]:
    """Return the fields of `LossConfig` that some losses read and others do not, with their defaults."""
    own = ("loss", "loss_options", *FRAME)
    return {f.name: f.default for f in dataclasses.fields(LossConfig) if f.name not in own}


def top_of(loss: Stage) -> int:
    """Return the number of likeliest tokens per position whose log-probabilities a loss needs; 0 if none."""
    name = loss.attributes["top"]
    return int(loss.option(name, 0)) if name else 0


def factors(loss: Stage, update: Any, step: int) -> Any:
    """Return the factors [tokens] that the loss's `choose` computes for an update."""
    choose = loss.attributes["choose"]
    own = {name: loss.option(name, parameter.default) for name, parameter in options_of(choose).items()}
    return choose(update, **own, **({"step": step} if "step" in parameters(choose) else {}))


def check(run: "FreshRun") -> None:
    """Check that the run's settings and its loss are compatible.

    Raises:
        BadConfig: they are incompatible.
    """
    config, loss = run.config, run.stages.named_loss
    if loss is None:
        return
    if loss.attributes["check"]:
        loss.attributes["check"](config)
    if loss.attributes["present"]:
        _check_present(config, loss)


def _check_present(config: "TrainConfig", loss: Stage) -> None:
    """Check that a loss that compares turns of the whole step gets all of them in one update.

    Raises:
        BadConfig: the step is split into minibatches, a setting would distort the comparison, or the learner cannot
            score tokens again.
    """
    if config.steps and config.minibatches > 1:
        raise BadConfig(
            f"loss {loss.name!r} with minibatches = {config.minibatches}: it compares turns with one another, and an update "
            "would hold some of them only; give --minibatches 1 (and --epochs for more updates)"
        )
    if config.steps and config.negative_advantage_weight != 1:
        raise BadConfig(
            f"loss {loss.name!r} with negative_advantage_weight = {config.negative_advantage_weight:g}: it is a regression "
            "on differences of advantages, which a weight on the negative ones alone would change; set "
            "negative_advantage_weight 1"
        )
    if not config.learner_kind.scores_again:
        raise BadConfig(
            f"loss {loss.name!r} with learner {config.learner!r}: it scores all tokens once more before each update, which "
            "learner 'local' alone does; take that one, or another loss"
        )
