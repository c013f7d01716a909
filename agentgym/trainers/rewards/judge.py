"""The reward `judge`: a model on a chat server grades episodes by a rubric."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, Fault
from agentgym.trainers.rewards import chat_engine, master_keys
from agentgym.trainers.rewards.grading import Grader, Prompt
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.rewards.transcript import transcript
from agentgym.trainers.seam import CALLER, Within


def check(*, engine: str, rubric: str, engine_options: object, cache: str, **_: object) -> None:
    """Check the engine's name, the rubric's file and the folder of the cache.

    Raises:
        BadConfig: the engine is unknown or cannot chat, `engine_options` is invalid, the rubric cannot be read or is empty,
            or the folder does not exist.
    """
    read_rubric(rubric, "judge")
    chat_engine.check("judge", engine, engine_options)
    if cache and not Path(cache).absolute().parent.is_dir():
        raise BadConfig(f"cache of reward 'judge' is {cache}; expected a file in a folder that exists")


async def reach(
    *,
    engine: str,
    engine_options: Mapping[str, object] | None,
    rubric: str,
    tokens: int,
    temperature: float,
    characters: int,
    tries: int,
    fooled: float,
    **_: object,
) -> None:
    """Check that the judge answers a short question and does not reward replies without content (`master_keys`).

    Raises:
        BadConfig: the judge fails a check.
    """
    await chat_engine.reach("the judge", engine, engine_options)
    grader, text = Grader("judge", engine, engine_options, tokens, temperature, tries), read_rubric(rubric, "judge")

    async def grade(episode: Episode) -> float | Fault:
        return await grader.grade(by_rubric(text, episode, characters))

    await master_keys.check(f"the judge {engine}", grade, fooled)


@reward("judge", check=check, reach=reach)
async def judge(
    episodes: Sequence[Episode],
    *,
    engine: Annotated[str, CALLER],
    rubric: Annotated[str, CALLER],
    weight: Annotated[float, Within(-1_000_000, 1_000_000)] = 0.5,
    tokens: Annotated[int, Within(16)] = 1024,
    temperature: Annotated[float, Within(0, 2)] = 0.0,
    characters: Annotated[int, Within(1000)] = 24_000,
    tries: Annotated[int, Within(1)] = 3,
    concurrency: Annotated[int, Within(1)] = 16,
    fooled: Annotated[float, Within(0, 1)] = 0.5,
    cache: Annotated[str, CALLER] = "",
    engine_options: Annotated[Mapping[str, object] | None, CALLER] = None,
    run: Any = None,
) -> list[dict[str, float] | Fault]:
    """Pay `weight` times the grade, from 0 to 1, that a model gives an episode by the rubric in the file `rubric`.

    `engine` is `chat:URL#MODEL`, or MODULE:NAME of a factory of a `ChatEngine`. The model reads the task, observations
    and replies as JSON, shortened to about `characters`; no text in it can end its JSON string. It gives its grade in a
    line with a hash of the rubric and the transcript, so the episode cannot contain that line. After a reply without
    the line, the model is asked again; after `tries` such replies, or if the server fails, the episode is a fault.

    Before a run, the judge grades ten replies without content (`master_keys`). If a grade is above `fooled`, the run is
    refused; `fooled` 1 skips this test. Grades are stored in `judge.sqlite` in the run's folder, or in the file
    `cache`, so equal content is graded once.
    """
    if not weight:
        return [{} for _ in episodes]
    text = read_rubric(rubric, "judge")
    prompts = [by_rubric(text, episode, characters) for episode in episodes]
    path = cache or (str(run.folder / "judge.sqlite") if run else ":memory:")
    grader = Grader("judge", engine, engine_options, tokens, temperature, tries, concurrency)
    grades = await grader.grades(prompts, path)
    return [grade if isinstance(grade, Fault) else {"judge": weight * grade} for grade in grades]


def by_rubric(rubric: str, episode: Episode, characters: int) -> Prompt:
    """Return the request to grade an episode by a rubric; `characters` limits the length of the transcript."""
    return Prompt(f"Grade an attempt at a task by this rubric:\n\n{rubric}", transcript(episode, characters))


def read_rubric(rubric: str, name: str) -> str:
    """Return the text of the rubric of the reward `name`.

    Raises:
        BadConfig: the file cannot be read or is empty.
    """
    try:
        text = Path(rubric).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"rubric of reward {name!r} is {rubric}, which cannot be read ({error}); expected a text file"
        ) from error
    if not text:
        raise BadConfig(f"rubric of reward {name!r} is {rubric}, which is empty; expected the grading criteria")
    return text
