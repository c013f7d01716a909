"""Credit: pure NumPy functions from a group of episodes to one advantage per turn (or per output token)."""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.run import trial
from agentgym.trainers.seam import Processes, Seam, Stage
from agentgym.trainers.seam import Within as Within

if TYPE_CHECKING:
    from agentgym.trainers.run.stages import FreshRun

Floats = npt.NDArray[np.float64]
CreditFunction = Callable[..., Any]
WORTH = "worth"
"""Key of `turn.extra` that stores the advantage of a turn that a selection added to the step."""

CREDITS = Seam(
    "credit",
    {
        "grpo": "agentgym.trainers.credit.group:grpo",
        "dr_grpo": "agentgym.trainers.credit.group:dr_grpo",
        "rloo": "agentgym.trainers.credit.group:rloo",
        "gigpo": "agentgym.trainers.credit.gigpo:gigpo",
        "gigpo_reference": "agentgym.trainers.credit.gigpo_reference:gigpo_reference",
        "role_baseline": "agentgym.trainers.credit.roles:role_baseline",
        "mars": "agentgym.trainers.credit.mars:mars",
        "task_relative": "agentgym.trainers.credit.task_relative:task_relative",
        "state_td": "agentgym.trainers.credit.state_td:state_td",
        "branch_td": "agentgym.trainers.credit.state_td:branch_td",
        "turn_gae": "agentgym.trainers.credit.gae:turn_gae",
        "bilevel_gae": "agentgym.trainers.credit.gae:bilevel_gae",
        "turn_mc": "agentgym.trainers.credit.turn_mc:turn_mc",
        "mt_grpo": "agentgym.trainers.credit.mt_grpo:mt_grpo",
        "reinforce_pp": "agentgym.trainers.credit.reinforce_pp:reinforce_pp",
        "reinforce_pp_baseline": "agentgym.trainers.credit.reinforce_pp:reinforce_pp_baseline",
        "lite_ppo": "agentgym.trainers.credit.lite_ppo:lite_ppo",
        "forward_correction": "agentgym.trainers.credit.forward_correction:forward_correction",
        "rlpr": "agentgym.trainers.credit.rlpr:rlpr",
        "rebn": "agentgym.trainers.credit.rebn:rebn",
        "ngrpo": "agentgym.trainers.credit.ngrpo:ngrpo",
        "salt": "agentgym.trainers.credit.salt:salt",
        "hgpo": "agentgym.trainers.credit.hgpo:hgpo",
        "igpo": "agentgym.trainers.credit.igpo:igpo",
        "archer": "agentgym.trainers.credit.archer:archer",
        "sweet": "agentgym.trainers.credit.sweet:sweet",
        "sweet_head": "agentgym.trainers.credit.sweet:sweet_head",
        "rl_zvp": "agentgym.trainers.credit.rl_zvp:rl_zvp",
        "arpo": "agentgym.trainers.credit.tree:arpo",
        "aepo": "agentgym.trainers.credit.tree:aepo",
        "treerl": "agentgym.trainers.credit.tree:treerl",
        "relative_future": "agentgym.trainers.credit.tree:relative_future",
        "pav": "agentgym.trainers.credit.pav:pav",
        "spa": "agentgym.trainers.credit.spa:spa",
        "distill": "agentgym.trainers.credit.distill:distill",
        "off_policy": "agentgym.trainers.credit.off_policy:off_policy",
    },
    {"scope": "group", "needs": (), "uniform": False, "worth": False},
)


@dataclass(frozen=True, slots=True)
class Credit:
    """A credit function with its hyperparameters filled in; call it on all groups of a training step."""

    stage: Stage
    run: Processes | None = None
    """The run, passed to credit functions that have a parameter `run`."""

    @property
    def name(self) -> str:
        """Short name of the function."""
        return self.stage.name

    @property
    def scope(self) -> str:
        """`group`: the function sees one group at a time; `batch`: all groups at once."""
        return self.stage.attributes["scope"]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the values that a run computes into `turn.extra` before it calls the function."""
        return self.stage.attributes["needs"]

    @property
    def hyperparameters(self) -> Mapping[str, object]:
        """Hyperparameters that were set, by name; the others have their defaults."""
        return self.stage.options

    def __call__(self, groups: Sequence[Group], *, step: int = 0) -> list[list[Floats]]:
        """Return, per group and episode, an array [turns] or [output tokens of all turns, in order].

        Raises:
            ValueError: a list or array has the wrong length, or an array is not finite; the message names the credit.
        """
        handed: dict[str, object] = {"step": step, "run": self.run}
        call = self.stage
        credited = call(groups, **handed) if self.scope == "batch" else [call(group, **handed) for group in groups]
        self._check_length(credited, len(groups), "lists of arrays for {} groups")
        return [self._checked(group, arrays) for group, arrays in zip(groups, credited, strict=True)]

    def _checked(self, group: Group, arrays: Sequence[object]) -> list[Floats]:
        self._check_length(arrays, len(group), "arrays for a group of {} episodes")
        return [self._array(episode, array) for episode, array in zip(group, arrays, strict=True)]

    def _check_length(self, returned: object, number: int, what: str) -> None:
        """Check that the credit returned `number` items; `what` names them in the message, with {} for `number`.

        Raises:
            ValueError: it returned another number of items, or something without a length.
        """
        if not isinstance(returned, Sized):
            raise ValueError(f"credit {self.name!r} returned {returned!r:.80}; expected {number} {what.format(number)}")
        if len(returned) != number:
            raise ValueError(f"credit {self.name!r} returned {len(returned)} {what.format(number)}; expected {number}")

    def _array(self, episode: Episode, array: object) -> Floats:
        values = np.asarray(array, dtype=np.float64)
        turns, tokens = len(episode.turns), sum(len(turn.output_ids) for turn in episode.turns)
        where = f"credit {self.name!r}, task {episode.task_id!r}, attempt {episode.attempt}"
        if values.shape not in ((turns,), (tokens,)):
            raise ValueError(
                f"{where}: shape {values.shape}; expected ({turns},), one number per turn, or ({tokens},), per token"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{where}: advantages are not finite: {values.tolist()}")
        return values


def credit(
    name: str, scope: str = "group", needs: Sequence[str] = (), *, uniform: bool = False, worth: bool = False
) -> Callable[[CreditFunction], CreditFunction]:
    """Declare a credit function `(group, *, hyperparameters) -> one array per episode` and give it a short name.

    An array is [turns] or [output tokens of all turns, in order]. With scope `batch` the function gets the list of all
    groups and returns one list of arrays per group. `needs` names the values that the run computes into `turn.extra`
    first. The decorator returns the function unchanged, so it can be called and tested directly.

    Keyword-only parameters are hyperparameters, except three that the run passes: `step` (number of steps so far),
    `state` (a dict of plain data that lasts between steps and is saved in checkpoints) and `run`. With several
    processes, each process has its own groups and its own `state`. To share numbers, use scope `batch` and collect them
    with `run.gather`; a batch function is also called in processes without groups.

    `uniform`: groups with equal returns also get credit, so a run that drops them warns. `worth`: the function reads
    `turn.extra["worth"]`, which some selections set in turns that they add.

    Raises:
        BadConfig: the scope is unknown.
    """
    if scope not in ("group", "batch"):
        raise BadConfig(f"scope of credit {name!r} is {scope!r}; expected 'group' or 'batch'")
    return CREDITS.declare(name, scope=scope, needs=tuple(needs), uniform=uniform, worth=worth)


def resolve(name: str, /, **hyperparameters: object) -> Credit:
    """Return the credit with this short name (built-in, or declared by `@credit`) or MODULE:NAME, ready to be called.

    Hyperparameters are the function's keyword-only parameters. Strings, such as values from a command line, are
    converted to the type of the default.

    Raises:
        UnknownName: there is no such credit or need.
        BadConfig: a hyperparameter is unknown, or its annotation (`Literal`, `Annotated[float, Within(0, 1)]`) or the
            function rejects its value.
    """
    credit = Credit(CREDITS.resolve(name, hyperparameters))
    for need in credit.needs:
        needs.NEEDS.looked_up(need)
    _try(credit)
    return credit


def _try(credit: Credit) -> None:
    """Call the credit on a made-up group, so that it can reject hyperparameters that contradict each other.

    Other errors are ignored, because the made-up group may cause them.

    Raises:
        BadConfig: the credit rejects its hyperparameters.
    """
    episodes = [
        Episode("", "task", "task", 0, turns=[_made_up(credit.needs), _made_up(credit.needs, reward)], reward=reward)
        for reward in (0.0, 1.0)
    ]
    with np.errstate(all="ignore"):
        try:
            credit([Group("task", "agent", episodes)])
        except BadConfig:
            raise
        except Exception:
            return
        finally:
            credit.stage.state.clear()


def _made_up(needs: Sequence[str], reward: float = 0.0) -> Turn:
    turn = Turn("", state_key="", prompt_ids=[0], output_ids=[0, 0], logprobs=[-1.0, -1.0], reward=reward)
    turn.extra = {need: np.ones(2, dtype=np.float32) for need in needs}
    return turn


def check(run: "FreshRun") -> None:
    """Check that the run's credit works, and that credit and selection agree on `turn.extra["worth"]`.

    Raises:
        BadConfig: only the credit or only the selection uses a worth, or a user-defined credit fails on a made-up group.
    """
    config, credit, selection = run.config, run.stages.credit, run.stages.selection
    if config.steps:
        trial.attempt(run, credit.stage, lambda stage, alone, group: Credit(stage, alone)([needs.tried(run, group)]))
    reads, sets = credit.stage.attributes["worth"], selection.attributes["worth"]
    if not config.steps or reads == sets:
        return
    if sets:
        raise BadConfig(
            f"select {config.select!r} adds turns with a worth, and credit {config.credit!r} does not "
            f"read it: use --credit off_policy --credit.base {config.credit}"
        )
    raise BadConfig(
        f"credit {config.credit!r} is for turns with a worth, and select {config.select!r} adds "
        "none: use --select dagger, --select self_imitation or --select memorize, or another credit"
    )
