"""Qualify a server of the Tinker API: find out by experiments on a row of tokens what it really computes.

Servers agree on the wire format but not on what they compute. With AdamW's averages off and its eps far above any
gradient, a step is plain gradient descent, so the change of a row's log-probabilities reveals the gradient up to one
factor; two gradients are compared by the changes that they cause.
"""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.engines import Sampling
from agentgym.engines.tinker import TinkerEngine, scored
from agentgym.errors import BadData, EngineDead, Fault
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.learners.tinker.datums import Reduction, policy_datum, scored_datum
from agentgym.trainers.learners.tinker.lab import (
    GIVEN,
    PROMPT,
    UNCLIPPED,
    Lab,
    Scores,
    Verdict,
    cut_row,
    gap_of,
    ok_or_refused,
    pull_at,
)
from agentgym.trainers.learners.tinker.service import ServedAdapter, Service
from agentgym.trainers.model.policy import load_policy

TEXT = "The quick brown fox jumps over the lazy dog. 1, 2, 3, 5, 8,"
REPLY = 16
"""Number of reply tokens."""


@dataclass(slots=True)
class Qualification:
    """Findings about a server."""

    reduction: Reduction = "tokens"
    losses: list[str] = field(default_factory=list[str])
    """Names of the server's losses that equal ours."""
    clips_gradients: bool = False
    mismatch: float = 0.0
    """Mean difference, in nats, of the sampler's and the trainer's log-probabilities under the same weights."""
    findings: list[list[str]] = field(default_factory=list[list[str]])
    """Rows of the table of findings: question, finding, verdict."""

    def note(self, what: str, text: str, verdict: Verdict) -> None:
        """Add a row to the table of findings."""
        self.findings.append([what, text, verdict])

    def refused(self, config: TrainConfig | None = None) -> list[str]:
        """Return the reasons why the server cannot train; with `config`, also why it cannot train this run."""
        reasons = [f"{what}: {text}" for what, text, verdict in self.findings if verdict == "refused"]
        if config is not None and config.grad_clip < UNCLIPPED and not self.clips_gradients:
            reasons.append(f"it clips no gradients, and grad_clip is {config.grad_clip:g}: give --grad-clip {UNCLIPPED:g}")
        if config is not None and config.engine_kind.sent_weights:
            reasons += [text for what, text, verdict in self.findings if (what, verdict) == (GIVEN, "none")]
        return reasons


def read_qualified(path: str) -> Qualification:
    """Read the output of `agentgym qualify --json`, or a run's `qualified.json`.

    Raises:
        BadData: the file is neither.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        return Qualification(**{known.name: values[known.name] for known in fields(Qualification)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(
            f"{path}: expected what `agentgym qualify --json` prints, got {type(error).__name__}: {error}"
        ) from error


def show(qualified: Qualification) -> str:
    """Return the table of findings as text."""
    width = max(len(line[0]) for line in qualified.findings)
    return "\n".join(f"  {what:<{width}}  {verdict:<10} {text}" for what, text, verdict in qualified.findings)


def qualify(service: Service, base: str, model: str, tokenizer: Any, *, rank: int = 8) -> Qualification:
    """Qualify a server with a few temporary adapters that it trains, and return the findings.

    Raises:
        EngineDead: the server does not answer.
    """
    qualified, trained = Qualification(), service.trainer(base, rank, 7)
    try:
        _measure(service, trained, model, tokenizer, qualified)
    finally:
        trained.forget()
    return qualified


def _measure(service: Service, trained: ServedAdapter, model: str, tokenizer: object, qualified: Qualification) -> None:
    ids = _sampling(service, trained, tokenizer, qualified)
    if ids is None or not _scores(trained, ids, model, qualified):
        return
    lab = Lab(trained, ids, qualified)
    if not lab.moves():
        return
    lab.reduction()
    lab.mixture(model)
    lab.accumulation()
    lab.bounds()
    lab.clipping()
    _versions(service, trained, ids, qualified)
    _resumed(service, lab, qualified)


def _sampling(service: Service, trained: ServedAdapter, tokenizer: Any, qualified: Qualification) -> list[int] | None:
    """Check the sampler of a fresh adapter; return a prompt with the reply that it sampled, or None if sampling failed.

    Raises:
        EngineDead: the server is gone.
    """
    engine = TinkerEngine(service, tokenizer, 10**6)
    prompt = [int(id) for id in tokenizer.encode(TEXT, add_special_tokens=False)][:PROMPT]

    async def ask(temperature: float, stop: tuple[int, ...] = ()) -> tuple[list[int], list[float], list[float]]:
        sampling = Sampling(temperature=temperature, max_tokens=REPLY, seed=11, stop_ids=stop or (2**31 - 2,))
        done = await engine.generate(prompt, sampling, "qualify")
        return done.ids, done.logprobs, (await scored(service, engine.sampler, [*prompt, *done.ids]))[len(prompt) - 1 :]

    async def all_of_it() -> list[int]:
        await engine.serve(trained.sampler, 0)
        ids, logprobs, scores = await ask(1.0)
        again = (await ask(1.0))[0]
        qualified.note("seeds", "the same tokens twice" if again == ids else "other tokens each time", "ok")
        gap = gap_of(logprobs, scores)
        qualified.note("its sampler's own scores", f"{gap:.2g} from those it sampled with", "ok" if gap < 0.1 else "refused")
        _, logprobs, scores = await ask(0.5)
        scale = "those of temperature 1" if gap_of(logprobs, scores) < 0.02 else "scaled by it"
        qualified.note("logprobs at temperature 0.5", f"{scale}; training is at temperature 1", "ok")
        stop = ids[len(ids) // 2]
        ended = (await ask(1.0, (stop,)))[0]
        right = ended == ids[: ids.index(stop) + 1]
        qualified.note(
            "stop ids",
            "end a reply and stay in it" if right else f"not followed: {ended} of {ids} at {stop}",
            ok_or_refused(right),
        )
        return [*prompt, *ids]

    try:
        return asyncio.run(all_of_it())
    except EngineDead:
        raise
    except Fault as error:
        qualified.note("sampling", str(error), "refused")
        return None


def _scores(trained: ServedAdapter, ids: list[int], model: str, qualified: Qualification) -> bool:
    """Compare the trainer's log-probabilities with the sampler's and with our torch model's, if that can be loaded.

    Returns True if no finding so far rules the server out.
    """
    scores = np.asarray(trained.forward([scored_datum(ids)])[0], dtype=np.float64)
    service = trained.service
    sampler = trained.sampler()
    served = np.asarray(asyncio.run(scored(service, sampler, ids)))
    if len(scores) != len(served):
        qualified.note("trainer's logprobs", f"{len(scores)} of {len(served)} targets", "refused")
        return False
    qualified.mismatch = gap_of(scores, served)
    true = _own(model, ids)
    for what, other in (("trainer and its sampler", served), ("trainer and our torch", true)):
        if other is None:
            qualified.note(what, "no weights here to compare with", "not known")
            continue
        gap, near = gap_of(scores, other), gap_of(scores[1:], other[:-1]) if len(other) > 1 else 1.0
        near = min(near, gap_of(scores[:-1], other[1:]))
        fine = gap < 0.1
        off = " and off by one token" if not fine and near < 0.1 else ""
        qualified.note(what, f"differ by {gap:.2g} on average{off}", ok_or_refused(fine))
    return not qualified.refused()


def _own(model: str, ids: list[int]) -> Scores | None:
    """Return the log-probabilities of a local model in float32, [targets]; None if it cannot be loaded."""
    try:
        policy, _ = load_policy(model)
    except (BadData, OSError, MemoryError):
        return None
    with torch.no_grad():
        every = torch.log_softmax(policy(torch.tensor([ids[:-1]])).logits[0].float(), -1)
    return every.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].double().numpy()


def _versions(service: Service, trained: ServedAdapter, ids: list[int], qualified: Qualification) -> None:
    """Check that a new sampler serves the new weights and no others."""
    row = cut_row(ids)
    old = trained.forward([scored_datum(ids)])[0]
    for _ in range(4):
        now = np.concatenate(([np.nan], trained.forward([scored_datum(ids)])[0])).astype(np.float32)
        trained.backward([policy_datum(row, now, np.where(row.mask, 1.0, 0).astype(np.float32))], "importance_sampling")
        trained.step(1e-2)
    new = np.asarray(trained.forward([scored_datum(ids)])[0], dtype=np.float64)
    served = np.asarray(asyncio.run(scored(service, trained.sampler(), ids)))
    gap, moved = gap_of(new, served), gap_of(new, old)
    fine = gap < max(0.02, 3 * qualified.mismatch)
    qualified.note("a new sampler", f"{gap:.2g} from the new weights, which moved by {moved:.2g}", ok_or_refused(fine))


def _resumed(service: Service, lab: Lab, qualified: Qualification) -> None:
    """Check that weights and optimizer are restored from a saved state."""
    trained, ids = lab.trained, lab.row.ids.tolist()

    def step(trainer: ServedAdapter) -> Scores:
        now = np.concatenate(([np.nan], trainer.forward([scored_datum(ids)])[0])).astype(np.float32)
        trainer.backward([policy_datum(lab.row, now, pull_at(lab.row, 1.0))], "importance_sampling")
        trainer.step(1e-3)
        return np.asarray(trainer.forward([scored_datum(ids)])[0], dtype=np.float64)

    path = trained.save("qualify")
    saved = lab.scores()
    went_on = step(trained)
    try:
        other = service.loaded(path, optimizer=True)
        loaded = np.asarray(other.forward([scored_datum(ids)])[0], dtype=np.float64)
        weights, optimizer = gap_of(saved, loaded), gap_of(went_on, step(other))
        other.forget()
    except EngineDead as error:
        qualified.note("a saved state", f"does not come back ({str(error)[-160:]})", "refused")
        return
    qualified.note("weights of a saved state", f"{weights:.2g} from those saved", ok_or_refused(weights < 1e-3))
    moved = gap_of(saved, went_on)
    fine = optimizer < 0.02 * moved + 1e-5
    qualified.note(
        "optimizer of a saved state",
        f"its next step is {optimizer:.2g} from the one not stopped, of {moved:.2g}",
        ok_or_refused(fine),
    )
