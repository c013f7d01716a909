"""Earlier replies as drafts for an engine: replies of the same task and attempt to the same prompt."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.engines import Completing, Completion, Draft, Likeliest, Request
from agentgym.episodes.episode import Episode

WORDS = 4
"""Number of 32-bit words in the key of a prompt."""
Packed = tuple[bytes, bytes]
"""The replies of an episode as bytes: (integers, log-probabilities)."""
Prompt = tuple[int, ...]


def key_of(ids: Sequence[int]) -> Prompt:
    """Return the key of a prompt, a hash of its token ids."""
    content = np.asarray(ids, dtype=np.int32).tobytes()
    return tuple(np.frombuffer(hashlib.blake2b(content, digest_size=4 * WORDS).digest(), dtype=np.int32).tolist())


@dataclass(frozen=True, slots=True)
class Reply:
    """An earlier reply to a prompt."""

    prompt: Prompt
    ids: list[int]
    logprobs: list[float]
    likeliest: list[Likeliest] = field(default_factory=list[Likeliest])


def packed(replies: Sequence[Reply]) -> Packed:
    """Encode replies as bytes that are cheap to copy; log-probabilities are rounded to float32."""
    known = max((len(tokens) for reply in replies for tokens, _ in reply.likeliest), default=0)
    numbers: list[int] = [len(replies), known]
    logprobs: list[float] = []
    for reply in replies:
        numbers += [len(reply.ids), *reply.prompt, *reply.ids]
        logprobs += reply.logprobs
        for tokens, values in reply.likeliest:
            numbers += tokens
            logprobs += values
    return np.asarray(numbers, dtype=np.int32).tobytes(), np.asarray(logprobs, dtype=np.float32).tobytes()


def unpacked(content: Packed) -> list[Reply]:
    """Decode replies from bytes."""
    numbers: npt.NDArray[np.int32] = np.frombuffer(content[0], dtype=np.int32)
    logprobs: npt.NDArray[np.float32] = np.frombuffer(content[1], dtype=np.float32)
    count, known = numbers[:2].tolist()
    at, place = 2, 0
    replies: list[Reply] = []
    for _ in range(count):
        size = int(numbers[at])
        prompt = tuple(numbers[at + 1 : at + 1 + WORDS].tolist())
        at += 1 + WORDS
        ids, own = numbers[at : at + size].tolist(), logprobs[place : place + size].tolist()
        at, place = at + size, place + size
        tokens = numbers[at : at + size * known].reshape(size, known).tolist()
        values = logprobs[place : place + size * known].reshape(size, known).tolist()
        at, place = at + size * known, place + size * known
        replies.append(Reply(prompt, ids, own, list(zip(tokens, values, strict=True)) if known else []))
    return replies


class Drafting(Completing):
    """An engine that passes requests to `engine` with earlier replies as drafts, and records the new replies.

    `earlier` has the replies of earlier episodes of the same tasks, by episode (`GROUP#ATTEMPT`). A prompt includes all
    earlier turns, so once the environment or the policy answers differently, no later prompt of the episode matches a
    draft. `lenience` is that of the drafts (see `Draft`); `known` is the number of likeliest tokens to record.
    """

    def __init__(self, engine: Any, earlier: Mapping[str, Sequence[Reply]], lenience: float, known: int) -> None:
        self.engine, self.lenience, self.known = engine, lenience, known
        self.replies: dict[str, list[Reply]] = {}
        """New replies by episode (`GROUP#ATTEMPT`)."""
        self.offered = self.accepted = 0
        """Number of draft tokens, and number of those that the engine accepted."""
        self._drafts: dict[str, dict[Prompt, list[Reply]]] = {}
        for episode, replies in earlier.items():
            by_prompt = self._drafts.setdefault(episode, {})
            for reply in replies:
                by_prompt.setdefault(reply.prompt, []).append(reply)

    async def complete(self, request: Request) -> Completion:
        """Pass a request to the engine, with an earlier reply as a draft if there is one, and record the new reply."""
        episode, prompt = request.session.rpartition("#")[0], key_of(request.prompt_ids)
        drafts = self._drafts.get(episode, {}).get(prompt)
        earlier = drafts.pop(0) if drafts else None
        options: dict[str, Any] = {"watch": request.watch} if request.watch else {}
        if earlier is not None:
            options["draft"] = Draft(earlier.ids, earlier.logprobs, self.lenience, earlier.likeliest)
        completion: Completion = await self.engine.generate(
            request.prompt_ids, request.sampling, request.session, likeliest=self.known, **options
        )
        self.offered += len(earlier.ids) if earlier else 0
        self.accepted += completion.reused
        reply = Reply(prompt, completion.ids, completion.logprobs, completion.likeliest)
        self.replies.setdefault(episode, []).append(reply)
        return completion

    def of(self, episode: Episode) -> list[Reply]:
        """Return the recorded replies that occur in an episode, without those of an earlier try that ended in a fault."""
        recorded = {(r.prompt, tuple(r.ids)): r for r in self.replies.get(f"{episode.group_id}#{episode.attempt}", ())}
        calls = [call for turn in episode.turns for call in turn.calls if call.output_ids]
        replies = [recorded.get((key_of(call.prompt_ids), tuple(call.output_ids))) for call in calls]
        return [reply for reply in replies if reply is not None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)
