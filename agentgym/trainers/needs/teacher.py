"""The need `teacher_logprobs`: another model's log-probabilities of the sampled tokens."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import numpy.typing as npt

from agentgym import engines
from agentgym.core.env import TextEnv
from agentgym.engines.kinds import ENGINES, EngineKind, kind_of
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig, EngineDead, Fault
from agentgym.registry import load
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.needs.interface import needs, place
from agentgym.trainers.seam import CALLER, Within, given_to

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""Pattern of MODULE:NAME, a user-defined token engine."""
Floats = npt.NDArray[np.float32]


def different(ours: Mapping[str, int], theirs: Mapping[str, int]) -> str:
    """Return how the teacher's vocabulary differs from the policy's; empty if it has all our tokens with the same ids."""
    wrong = [token for token, id in ours.items() if theirs.get(token) != id]
    if not wrong:
        return ""
    token = min(wrong, key=ours.__getitem__)
    there = f"is {theirs[token]} there" if token in theirs else "is unknown there"
    return f"{len(wrong)} of {len(ours)} tokens differ; {token!r} is {ours[token]} here and {there}"


def _other_vocabulary(teacher: str, why: str) -> str:
    return (
        f"needs 'teacher_logprobs': teacher {teacher} has another vocabulary than the policy ({why}). It can only score "
        "its own tokens: choose a teacher of the same model family"
    )


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    """Check that the teacher exists and can score the run's samples, and that its vocabulary, if known, is the policy's.

    Raises:
        BadConfig: the teacher fails one of these checks.
    """
    own = given_to(config.needs_options, "teacher_logprobs")
    teacher, options = own.get("teacher"), own.get("teacher_options")
    if options is not None and not isinstance(options, Mapping):
        raise BadConfig(f"teacher_options of needs 'teacher_logprobs' is {options!r}; expected a table, as {{timeout = 60}}")
    if not isinstance(teacher, str):
        return  # resolving the need reports that it is missing
    kind = _kind(teacher)
    if kind is None:
        if not callable(load(teacher, "token engine", {})):
            raise BadConfig(f"teacher of needs 'teacher_logprobs' is {teacher}; expected a class that makes a token engine")
        return
    if config.temperature != 1.0 and not kind.scales_scores:
        raise BadConfig(
            f"temperature is {config.temperature:g} with teacher {teacher}: it scores at temperature 1 only; sample at 1, "
            "or take an hf: teacher"
        )
    kind.check_installed()
    if kind.in_process:
        folder = _folder(teacher)
        kind.check_target(folder)
        ours, theirs = _vocabulary(config.model), _vocabulary(folder)
        if ours and theirs and (why := different(ours, theirs)):
            raise BadConfig(_other_vocabulary(teacher, why))


def _kind(teacher: str) -> EngineKind | None:
    """Return the kind of the teacher's engine; None for MODULE:NAME.

    Raises:
        BadConfig: the engine cannot score tokens.
    """
    name = teacher.partition(":")[0]
    if OWN.fullmatch(teacher) and name not in ENGINES:
        return None
    if name not in ENGINES or not all(teacher.partition(":")) or not ENGINES[name].tokens:
        raise BadConfig(
            f"teacher of needs 'teacher_logprobs' is {teacher!r}; expected an engine that scores tokens: hf:FOLDER, "
            "vllm:URL, openai:URL, or MODULE:NAME of your own engine"
        )
    return kind_of(teacher)[0]


def _folder(teacher: str) -> str:
    from agentgym.trainers.run.preflight import model_folder

    return model_folder(teacher.partition(":")[2])


def _vocabulary(model: str) -> Mapping[str, int] | None:
    """Return the vocabulary in a model's folder; None if it cannot be read without loading the model."""
    file = Path(model) / "tokenizer.json"
    if not file.is_file():
        return None
    from tokenizers import Tokenizer

    return cast("Any", Tokenizer).from_file(str(file)).get_vocab()


@needs("teacher_logprobs", check=_check)
async def teacher_logprobs(
    groups: Sequence[Group],
    *,
    run: Any,
    teacher: Annotated[str, CALLER],
    teacher_options: Annotated[Mapping[str, object] | None, CALLER] = None,
    concurrency: Annotated[int, Within(1, 4096)] = 16,
) -> dict[str, float]:
    """Compute a `teacher`'s log-probability of each output token, given the policy's exact prompt tokens.

    `teacher` is `hf:FOLDER` (for the folder of a run: its newest checkpoint), `vllm:URL,URL`, `openai:URL`, or
    MODULE:NAME of a class that makes a `TokenEngine`; `teacher_options` are the engine's options. The teacher scores
    `concurrency` rows at a time, each token at the temperature at which it was sampled. Every token of the policy's
    vocabulary must have the same id in the teacher's. A teacher that fails permanently ends the run. Returns
    `teacher_tokens`, the number of tokens it scored, and `teacher_kl`, the mean of log p - log T over the sampled
    tokens of all processes: the reverse KL that distillation reduces.
    """
    engine = run.resource(f"teacher {teacher}", lambda: _made(teacher, dict(teacher_options or {}), run))
    episodes = [episode for group in groups for episode in group]
    rows = build(episodes)
    limit = asyncio.Semaphore(concurrency)

    async def ask(row: Segment) -> Floats:
        async with limit:
            return await _scored(engine, row, run.config.temperature, teacher)

    scores = await asyncio.gather(*(ask(row) for row in rows))
    place(episodes, rows, ("teacher_logprobs",), {"teacher_logprobs": scores})
    gaps = [(row.logprobs - score)[row.mask] for row, score in zip(rows, scores, strict=True)]
    known = [gap[~np.isnan(gap)] for gap in gaps]
    total = sum(run.gather([sum(map(len, known))]))
    kl = float(sum(gap.sum(dtype=np.float64) for gap in known)) / max(total, 1)
    return {"teacher_tokens": float(sum(map(len, rows))), "teacher_kl": kl}


async def _scored(engine: Any, row: Segment, temperature: float, teacher: str) -> Floats:
    """Return the teacher's log-probability of each sampled token of a row, [tokens]; nan elsewhere.

    Raises:
        EngineDead: the teacher cannot score.
    """
    own = np.full(len(row), np.nan, dtype=np.float32) if row.temperatures is None else row.temperatures
    at = np.where(np.isnan(own), temperature, own)
    scores = np.full(len(row), np.nan, dtype=np.float32)
    ids = row.ids.tolist()
    for value in np.unique(at[row.mask]).tolist():
        try:
            logprobs = await engine.score(ids, temperature if abs(value - temperature) < 1e-6 else value)
        except EngineDead:
            raise
        except Fault as fault:
            raise EngineDead(f"teacher {teacher} scores nothing: {fault}") from fault
        at_this_temperature = row.mask & (at == value)
        scores[at_this_temperature] = np.concatenate([[np.nan], logprobs])[at_this_temperature]
    return scores


def _made(teacher: str, options: dict[str, object], run: Any) -> Any:
    """Load the teacher, or connect to it, and return its engine.

    Raises:
        BadConfig: its vocabulary differs from the policy's.
    """
    kind = _kind(teacher)
    if kind is None:
        engine: Any = cast("Any", load(teacher, "token engine", {}))(**options)
    elif kind.in_process:
        engine = engines.engine(f"{kind.name}:{_folder(teacher)}", device=str(run.accelerator.device), slots=1, **options)
    else:
        engine = engines.engine(teacher, **options)
    ours, theirs = run.rollouts.tokenizer, getattr(engine, "tokenizer", None)
    if theirs is not None and (why := different(ours.get_vocab(), theirs.get_vocab())):
        engine.close()
        raise BadConfig(_other_vocabulary(teacher, why))
    return engine
