"""The reward `tinyv`: a small model rechecks answers that the environment's program rejected."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, Fault
from agentgym.trainers.data.error_rates import RECHECKED, false_negative_rate
from agentgym.trainers.rewards import chat_engine, master_keys
from agentgym.trainers.rewards.calls import answered
from agentgym.trainers.rewards.grading import Grader, Prompt
from agentgym.trainers.rewards.interface import MEASURES, reward
from agentgym.trainers.rewards.transcript import cut, harmless
from agentgym.trainers.seam import CALLER, Processes, Within

INSTRUCTIONS = """\
A program compared the answer of a task with its reference answers and rejected it. Such programs also reject correct \
answers in another form. Grade 1 if the answer means the same as a reference answer, otherwise 0."""
ACCEPTED = 0.5
"""Minimum grade at which the model accepts an answer that the program rejected."""
KEYS_TASK = Task(master_keys.TASK, {"answer": "331"}, "keys")


def check(*, engine: str, engine_options: object, **_: object) -> None:
    """Check the name and options of the chat engine.

    Raises:
        BadConfig: the engine is unknown or cannot chat, or `engine_options` is invalid.
    """
    chat_engine.check("tinyv", engine, engine_options)


async def reach(
    *, engine: str, tokens: int, fooled: float, engine_options: Mapping[str, object] | None, **_: object
) -> None:
    """Check that the model answers a short question and does not accept replies without content (`master_keys`) as answers.

    Raises:
        BadConfig: the model fails a check.
    """
    await chat_engine.reach("the verifier of reward 'tinyv',", engine, engine_options)
    grader = Grader("tinyv", engine, engine_options, tokens)

    async def grade(episode: Episode) -> float | Fault:
        return await grader.grade(question(episode, KEYS_TASK, ("answer",)))

    await master_keys.check(f"the verifier {engine} of reward 'tinyv'", grade, fooled, "tinyv")


def fits(env: TextEnv, name: str) -> None:
    """Check that an environment's tasks have reference answers.

    Raises:
        BadConfig: the tasks have no reference answers.
    """
    plain: Any = env.unwrapped
    if not plain.declared.answers:
        raise BadConfig(f"reward 'tinyv' compares with reference answers, and {name} declares none (`answers`)")


@reward("tinyv", check=check, reach=reach, fits=fits)
async def tinyv(
    episodes: Sequence[Episode],
    *,
    engine: Annotated[str, CALLER],
    weight: Annotated[float, Within(0, 1)] = 1.0,
    decay: Annotated[float, Within(0, 1)] = 0.9,
    tokens: Annotated[int, Within(16)] = 512,
    concurrency: Annotated[int, Within(1)] = 16,
    fooled: Annotated[float, Within(0, 1)] = 0.5,
    engine_options: Annotated[Mapping[str, object] | None, CALLER] = None,
    state: dict[str, Any],
    run: Any = None,
) -> list[dict[str, float] | Fault]:
    """Pay `weight` for an answer that the environment's program rejected and a model finds equivalent to the reference.

    Source: TinyV, arXiv 2505.14625. The program decides first, and a small model sees only the answers that it
    rejected, so an error of the model never turns a success into a failure. Only episodes that ended with an answer of
    the agent are rechecked. `success` is still the program's decision, and so is every measured success rate. The model
    is protected and tested as in the reward `judge`; verdicts are stored in `tinyv.sqlite`.

    The metric `reward/tinyv/false_negatives` estimates the program's error rate: (accepted by the model) / (accepted by
    the model + accepted by the program). A step's counts are weighted by `decay` to the power of their age in steps.

    Raises:
        BadConfig: it is called without a run.
    """
    if run is None:
        raise BadConfig("reward 'tinyv' needs the answers of the tasks, which only a training run has; leave it out")
    rejected = [episode for episode in episodes if not episode.success and answered(episode)]
    prompts = [question(e, run.task(e), run.rollouts.env(run.env_name(e)).declared.answers) for e in rejected]
    grader = Grader("tinyv", engine, engine_options, tokens, concurrency=concurrency)
    grades = dict(zip(map(id, rejected), await grader.grades(prompts, str(run.folder / "tinyv.sqlite")), strict=True))
    accepted = sum(episode.success is True for episode in episodes)
    overturned = sum(not isinstance(grade, Fault) and grade >= ACCEPTED for grade in grades.values())
    count(state, run, accepted, overturned, decay)
    rewards: list[dict[str, float] | Fault] = []
    for episode in episodes:
        grade = grades.get(id(episode), 0.0)
        if isinstance(grade, Fault):
            rewards.append(grade)
            continue
        episode.turns[-1].extra[RECHECKED] = grade >= ACCEPTED
        rewards.append({"tinyv": weight * (grade >= ACCEPTED)})
    return rewards


def count(state: dict[str, Any], run: Processes, accepted: int, overturned: int, decay: float) -> None:
    """Add a step's counts of all processes to `state`, and update the program's false-negative rate, a logged measure.

    `accepted` counts answers that the program accepted, `overturned` those that only the model accepted.
    """
    every = run.gather([(accepted, overturned)])
    rate = false_negative_rate(state, sum(own[0] for own in every), sum(own[1] for own in every), decay)
    if rate is not None:
        state[MEASURES] = {"false_negatives": rate}


def question(episode: Episode, task: Task, answers: Sequence[str]) -> Prompt:
    """Return the request to compare an episode's answer with the references: the values of `task.data` at `answers`."""
    lines: list[dict[str, object]] = [
        {"task": cut(task.instruction, 2000), "observation": cut(episode.turns[0].observation, 4000)},
        {"reference": [cut(str(task.data[name]), 2000) for name in answers if name in task.data]},
        {"answer": cut(episode.turns[-1].action or episode.turns[-1].text, 2000)},
    ]
    content = "\n".join(harmless(json.dumps(line, ensure_ascii=False)) for line in lines)
    return Prompt(INSTRUCTIONS, content, "task, its reference answers and the answer")
