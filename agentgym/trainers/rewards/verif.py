"""The reward `verif`: a program verifies hard constraints and a model soft ones; one reward combines both verdicts."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from agentgym.episodes.episode import Episode
from agentgym.errors import Fault
from agentgym.trainers.rewards import chat_engine, master_keys
from agentgym.trainers.rewards.grading import Grader, Prompt
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.rewards.judge import read_rubric
from agentgym.trainers.rewards.transcript import transcript
from agentgym.trainers.seam import CALLER, Within

INSTRUCTIONS = """\
Decide whether the replies in an attempt at a task meet all of these constraints. Programs check every other constraint of \
the task, so judge only these. Grade 1 if all of them are met, otherwise 0.

{rubric}"""
ACCEPTED = 0.5
"""Minimum grade of an attempt that meets the soft constraints."""


def check(*, engine: str, rubric: str, engine_options: object, **_: object) -> None:
    """Check the chat engine's name and options, and the file of the soft constraints.

    Raises:
        BadConfig: the engine is unknown or cannot chat, `engine_options` is invalid, or the file cannot be read.
    """
    read_rubric(rubric, "verif")
    chat_engine.check("verif", engine, engine_options)


async def reach(
    *,
    engine: str,
    rubric: str,
    tokens: int,
    characters: int,
    fooled: float,
    engine_options: Mapping[str, object] | None,
    **_: object,
) -> None:
    """Check that the model answers a short question and does not accept replies without content (`master_keys`).

    Raises:
        BadConfig: the model fails a check.
    """
    await chat_engine.reach("the judge of reward 'verif',", engine, engine_options)
    grader, text = Grader("verif", engine, engine_options, tokens), read_rubric(rubric, "verif")

    async def grade(episode: Episode) -> float | Fault:
        return await grader.grade(_prompt(text, episode, characters))

    await master_keys.check(f"the judge {engine} of reward 'verif'", grade, fooled, "verif")


@reward("verif", check=check, reach=reach)
async def verif(
    episodes: Sequence[Episode],
    *,
    engine: Annotated[str, CALLER],
    rubric: Annotated[str, CALLER],
    combine: Literal["mean", "product"] = "mean",
    tokens: Annotated[int, Within(16)] = 1024,
    characters: Annotated[int, Within(1000)] = 24_000,
    concurrency: Annotated[int, Within(1)] = 16,
    fooled: Annotated[float, Within(0, 1)] = 0.5,
    engine_options: Annotated[Mapping[str, object] | None, CALLER] = None,
    run: Any = None,
) -> list[dict[str, float] | Fault]:
    """Pay F(code, model) minus the outcome, so that the total is F(code, model), a combination of two verdicts of 0 or 1.

    Source: VerIF, arXiv 2506.09942. `code` is 1 if every hard constraint is met: the environment's own success, for
    example in `rlvr/Instructions-v0`. `model` is 1 if every soft constraint is met: a judge grades the attempt at least
    0.5 by the file `rubric`. With `combine="mean"`, F is (code + model) / 2. With `"product"`, F is 1 only if both are
    1, and failures are not sent to the model. In both cases no failure earns more than a success. The judge is
    protected and tested as in the reward `judge`; verdicts are stored in `verif.sqlite`.
    """
    text, path = read_rubric(rubric, "verif"), str(run.folder / "verif.sqlite") if run else ":memory:"
    judged = [episode for episode in episodes if episode.success or combine == "mean"]
    grader = Grader("verif", engine, engine_options, tokens, concurrency=concurrency)
    grades = iter(await grader.grades([_prompt(text, episode, characters) for episode in judged], path))
    rewards: list[dict[str, float] | Fault] = []
    for episode in episodes:
        grade = next(grades) if episode.success or combine == "mean" else 0.0
        rewards.append(grade if isinstance(grade, Fault) else {"verif": _change(episode, grade >= ACCEPTED, combine)})
    return rewards


def _change(episode: Episode, soft: bool, combine: str) -> float:
    code, model = float(episode.success is True), float(soft)
    return ((code + model) / 2 if combine == "mean" else code * model) - code


def _prompt(rubric: str, episode: Episode, characters: int) -> Prompt:
    return Prompt(INSTRUCTIONS.format(rubric=rubric), transcript(episode, characters))
