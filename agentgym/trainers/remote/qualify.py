"""What a server of the Tinker API really computes, found out by experiment on a row of tokens.

Servers agree on the wire and on little else. With AdamW's averages off and its eps far above any gradient, a step is plain
gradient descent, so how the log-probabilities of a row move tells the gradient, up to one factor: two gradients are compared
by the moves that they bring.
"""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from agentgym.engines import Sampling
from agentgym.engines.tinker import TinkerEngine, scored
from agentgym.errors import BadData, EngineDead, Fault
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.model.policy import load_policy
from agentgym.trainers.remote.datums import Floats, Reduction, imitation_datum, policy_datum, scored_datum
from agentgym.trainers.remote.service import Service, Trained
from agentgym.trainers.segments import Segment

Scores = npt.NDArray[np.float64]
Verdict = Literal["ok", "corrected", "refused", "not known", "none"]
TEXT = "The quick brown fox jumps over the lazy dog. 1, 2, 3, 5, 8,"
PROMPT, REPLY, PLACE, SHORT = 8, 16, 11, 14
"""Tokens of the prompt and of the reply; the token that has the advantage; tokens of the row that is cut after it."""
NEAR = 0.15
"""How far two gradients may be apart, of the first: a step has a second order, and half precision rounds."""
UNCLIPPED = 1e6
"""A `grad_clip` from which nothing is clipped."""


@dataclass(slots=True)
class Qualified:
    """What was found of a server."""

    reduction: Reduction = "tokens"
    losses: list[str] = field(default_factory=list[str])
    """Those that compute ours."""
    clips_gradients: bool = False
    mismatch: float = 0.0
    """Mean distance of the sampler's log-probabilities from the trainer's, of the same weights."""
    findings: list[list[str]] = field(default_factory=list[list[str]])
    """What was asked, what was found, and the verdict."""

    def note(self, what: str, text: str, verdict: Verdict) -> None:
        """Add a line to the table."""
        self.findings.append([what, text, verdict])

    def refused(self, config: TrainConfig | None = None) -> list[str]:
        """Return why the server cannot train, or not this run."""
        reasons = [f"{what}: {text}" for what, text, verdict in self.findings if verdict == "refused"]
        if config is not None and config.grad_clip < UNCLIPPED and not self.clips_gradients:
            reasons.append(f"it clips no gradients, and grad_clip is {config.grad_clip:g}: give --grad-clip {UNCLIPPED:g}")
        return reasons


def read_qualified(path: str) -> Qualified:
    """Return what `agentgym qualify --json` printed, or a run's `qualified.json`; BadData for anything else."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        return Qualified(**{known.name: told[known.name] for known in fields(Qualified)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(
            f"{path}: expected what `agentgym qualify --json` prints, got {type(error).__name__}: {error}"
        ) from error


def show(qualified: Qualified) -> str:
    """Return the table as text."""
    width = max(len(line[0]) for line in qualified.findings)
    return "\n".join(f"  {what:<{width}}  {verdict:<10} {text}" for what, text, verdict in qualified.findings)


def qualify(service: Service, base: str, model: str, tokenizer: Any, *, rank: int = 8) -> Qualified:
    """Return what a server computes; EngineDead where it gives no answers. It trains adapters of its own, for nothing."""
    qualified, trained = Qualified(), service.trainer(base, rank, 7)
    try:
        _look(service, trained, model, tokenizer, qualified)
    finally:
        trained.forget()
    return qualified


def _look(service: Service, trained: Trained, model: str, tokenizer: object, qualified: Qualified) -> None:
    ids = _sampling(service, trained, tokenizer, qualified)
    if ids is None or not _scores(trained, ids, model, qualified):
        return
    lab = Lab(trained, ids, qualified)
    if not lab.moves():
        return
    lab.reduction()
    lab.accumulation()
    lab.bounds()
    lab.clipping()
    _versions(service, trained, ids, qualified)
    _resumed(service, lab, qualified)


def _sampling(service: Service, trained: Trained, tokenizer: Any, qualified: Qualified) -> list[int] | None:
    """Look at the sampler of a fresh adapter; return a row of tokens that it made."""
    engine = TinkerEngine(service, tokenizer, 10**6)
    prompt = [int(id) for id in tokenizer.encode(TEXT, add_special_tokens=False)][:PROMPT]

    async def ask(temperature: float, stop: tuple[int, ...] = ()) -> tuple[list[int], list[float], list[float]]:
        sampling = Sampling(temperature=temperature, max_tokens=REPLY, seed=11, stop_ids=stop or (2**31 - 2,))
        done = await engine.generate(prompt, sampling, "qualify")
        return done.ids, done.logprobs, (await scored(service, engine.sampler, [*prompt, *done.ids]))[len(prompt) - 1 :]

    async def all_of_it() -> list[int]:
        await engine.serve(trained.sampler, 0)
        ids, said, scores = await ask(1.0)
        again = (await ask(1.0))[0]
        qualified.note("seeds", "the same tokens twice" if again == ids else "other tokens each time", "ok")
        gap = _gap(said, scores)
        qualified.note("its sampler's own scores", f"{gap:.2g} from those it sampled with", "ok" if gap < 0.1 else "refused")
        _, said, scores = await ask(0.5)
        told = "those of temperature 1" if _gap(said, scores) < 0.02 else "scaled by it"
        qualified.note("logprobs at temperature 0.5", f"{told}; training is at temperature 1", "ok")
        stop = ids[len(ids) // 2]
        ended = (await ask(1.0, (stop,)))[0]
        right = ended == ids[: ids.index(stop) + 1]
        qualified.note(
            "stop ids", "end a reply and stay in it" if right else f"not followed: {ended} of {ids} at {stop}", _or(right)
        )
        return [*prompt, *ids]

    try:
        return asyncio.run(all_of_it())
    except EngineDead:
        raise
    except Fault as error:
        qualified.note("sampling", str(error), "refused")
        return None


def _scores(trained: Trained, ids: list[int], model: str, qualified: Qualified) -> bool:
    """Hold the trainer's log-probabilities to the sampler's, and to our own torch where the weights can be had."""
    scores = np.asarray(trained.forward([scored_datum(ids)])[0], dtype=np.float64)
    service = trained.service
    sampler = trained.sampler()
    served = np.asarray(asyncio.run(scored(service, sampler, ids)))
    if len(scores) != len(served):
        qualified.note("trainer's logprobs", f"{len(scores)} of {len(served)} targets", "refused")
        return False
    qualified.mismatch = _gap(scores, served)
    true = _own(model, ids)
    for what, other in (("trainer and its sampler", served), ("trainer and our torch", true)):
        if other is None:
            qualified.note(what, "no weights here to compare with", "not known")
            continue
        gap, near = _gap(scores, other), _gap(scores[1:], other[:-1]) if len(other) > 1 else 1.0
        near = min(near, _gap(scores[:-1], other[1:]))
        fine = gap < 0.1
        off = " and off by one token" if not fine and near < 0.1 else ""
        qualified.note(what, f"{gap:.2g} apart in the mean{off}", _or(fine))
    return not qualified.refused()


def _own(model: str, ids: list[int]) -> Scores | None:
    """Return what the model in a folder says in float32; None where it cannot be loaded."""
    try:
        policy, _ = load_policy(model)
    except (BadData, OSError, MemoryError):
        return None
    with torch.no_grad():
        every = torch.log_softmax(policy(torch.tensor([ids[:-1]])).logits[0].float(), -1)
    return every.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].double().numpy()


class Lab:
    """Gradients, by the moves of a row's log-probabilities that a small step along them brings."""

    def __init__(self, trained: Trained, ids: list[int], qualified: Qualified) -> None:
        self.trained, self.qualified = trained, qualified
        self.row, self.short = _row(ids), _row(ids[:SHORT])
        self.rate, self.unit = 1e-4, np.zeros(len(ids) - 1)
        self.now = self.scores()
        """The row's log-probabilities under the present weights: [targets]."""

    def scores(self) -> Scores:
        """Ask for them."""
        return np.asarray(self.trained.forward([scored_datum(self.row.ids.tolist())])[0], dtype=np.float64)

    def datum(self, row: Segment, advantage: float, ratio: float = 1.0) -> object:
        """Return a row with an advantage at one token, whose ratio is as given."""
        now = np.concatenate(([np.nan], self.now))[: len(row)].astype(np.float32)
        return policy_datum(row, now - np.float32(np.log(ratio)), _at(row, advantage))

    def step(
        self,
        *sent: Sequence[object],
        loss: str = "importance_sampling",
        config: dict[str, float] | None = None,
        clip: float = 0.0,
    ) -> Scores:
        """Return how they move by a step along the gradient of requests."""
        for datums in sent:
            self.trained.backward(datums, loss, config)
        self.trained.step(0, plain=self.rate, clip=clip)
        before, self.now = self.now, self.scores()
        return self.now - before

    def moved(
        self,
        *sent: Sequence[object],
        loss: str = "importance_sampling",
        config: dict[str, float] | None = None,
        clip: float = 0.0,
    ) -> Scores:
        """Return the same, and go back: by how much tells what the unit is now, for each step leaves a second order."""
        move = self.step(*sent, loss=loss, config=config, clip=clip)
        part = self.part(move)
        if abs(part) > NEAR / 3:
            back = self.step([self.datum(self.row, -part)])
            self.unit = -back / part if abs(part) > 0.4 else self.unit
        return move

    def part(self, move: Scores) -> float:
        """Return how much of the unit's move a move is."""
        return float(move @ self.unit / max(self.unit @ self.unit, 1e-30))

    def moves(self) -> bool:
        """Find a rate at which a token with an advantage moves by little; False where nothing moves it."""
        noise = max(0.01, 10 * self.qualified.mismatch)
        for _ in range(10):
            self.unit = self.step([self.datum(self.row, 1.0)])
            self.step([self.datum(self.row, -1.0)])
            largest = float(np.abs(self.unit).max())
            if noise / 2 < largest < 2 * noise:
                break
            self.rate *= float(np.clip(noise / max(largest, 1e-9), 1e-2, 30))
        rises = self.unit[PLACE - 1] > 0 and float(np.abs(self.unit).max()) > noise / 4
        self.qualified.note(
            "importance_sampling", "raises tokens with an advantage" if rises else "does not train", _or(rises)
        )
        if rises:
            self.qualified.losses.append("importance_sampling")
        return bool(rises)

    def near(self, move: Scores, factor: float) -> bool:
        """Return whether a move is the unit's times a factor."""
        return float(np.linalg.norm(move - factor * self.unit)) < NEAR * max(1.0, factor) * float(np.linalg.norm(self.unit))

    def reduction(self) -> None:
        """Find out what a gradient is divided by."""
        short = self.moved([self.datum(self.short, 1.0)])
        pair = self.moved([self.datum(self.row, 1.0), self.datum(self.row, 0.0)])
        length = (len(self.row) - 1) / (len(self.short) - 1)
        by_length, by_rows = self.part(short), self.part(pair)
        if self.near(short, 1.0) and self.near(pair, 1.0):
            self.qualified.reduction = "tokens"
            self.qualified.note("reduction", "a sum over tokens", "ok")
        elif self.near(short, length) and self.near(pair, 0.5):
            self.qualified.reduction = "rows"
            self.qualified.note("reduction", "the mean over rows of each row's mean", "corrected")
        else:
            text = f"unknown: a shorter row changes the gradient {by_length:.2f} times, a second row {by_rows:.2f} times"
            self.qualified.note("reduction", text, "refused")

    def accumulation(self) -> None:
        """Find out whether requests add up, whether a step forgets them, and whether imitation pulls alike."""
        once = [self.datum(self.row, 1.0)]
        twice = self.moved(once, once)
        wanted = 2.0 if self.qualified.reduction == "tokens" else 1.0
        adds = self.near(twice, wanted)
        self.qualified.note("requests before a step", f"add up to {self.part(twice):.2f} (expected {wanted:g})", _or(adds))
        self.step(once)
        rest = float(np.linalg.norm(self.step())) / float(np.linalg.norm(self.unit))
        self.step([self.datum(self.row, -1.0)])
        self.qualified.note("a step without a gradient", f"moves {rest:.2f}", _or(rest < NEAR))
        imitated = self.moved([imitation_datum(self.row, _at(self.row, 1.0))], loss="cross_entropy")
        plain = self.near(imitated, 1.0) if self.qualified.reduction == "tokens" else False
        if plain:
            self.qualified.losses.append("cross_entropy")
        used = "ok" if plain else "corrected"
        self.qualified.note(
            "cross_entropy", f"{self.part(imitated):.2f} times" + ("" if plain else "; importance_sampling instead"), used
        )

    def bounds(self) -> None:
        """Find out whether ppo and cispo hold the bounds that they are sent."""
        ppo = (
            (2.0, 1.0, (0.8, 1.2), 0.0),
            (2.0, 1.0, (0.8, 3.0), 2.0),
            (0.5, -1.0, (0.8, 1.2), 0.0),
            (0.5, -1.0, (0.3, 1.2), -0.5),
        )
        cispo = ((2.0, 1.0, (0.0, 1.2), 1.2), (2.0, 1.0, (0.0, 3.0), 2.0), (0.25, 1.0, (0.0, 1.2), 0.25))
        for name, cases in (("ppo", ppo), ("cispo", cispo)):
            parts: list[str] = []
            fine = True
            for ratio, advantage, (low, high), wanted in cases:
                config = {"clip_low_threshold": low, "clip_high_threshold": high}
                try:
                    move = self.moved([self.datum(self.row, advantage, ratio)], loss=name, config=config)
                except EngineDead as error:
                    parts, fine = [f"refused by the server ({str(error)[-80:]})"], False
                    break
                parts.append(f"{self.part(move):.2f} for {wanted:g}")
                fine = fine and self.near(move, wanted)
            if fine:
                self.qualified.losses.append(name)
            text = ", ".join(parts) + ("" if fine else "; our own loss, sent as importance_sampling, instead")
            self.qualified.note(f"{name} at the bounds", text, "ok" if fine else "corrected")

    def clipping(self) -> None:
        """Find out whether the norm of a gradient is bounded where that is asked for."""
        move = self.moved([self.datum(self.row, 1.0)], clip=1e-6)
        self.qualified.clips_gradients = float(np.linalg.norm(move)) < 0.1 * float(np.linalg.norm(self.unit))
        text = "done if requested" if self.qualified.clips_gradients else f"not done: train with --grad-clip {UNCLIPPED:g}"
        self.qualified.note("clipping of gradients", text, "ok" if self.qualified.clips_gradients else "none")


def _versions(service: Service, trained: Trained, ids: list[int], qualified: Qualified) -> None:
    """See whether a new sampler serves new weights, and no other."""
    row = _row(ids)
    old = trained.forward([scored_datum(ids)])[0]
    for _ in range(4):
        now = np.concatenate(([np.nan], trained.forward([scored_datum(ids)])[0])).astype(np.float32)
        trained.backward([policy_datum(row, now, np.where(row.mask, 1.0, 0).astype(np.float32))], "importance_sampling")
        trained.step(1e-2)
    new = np.asarray(trained.forward([scored_datum(ids)])[0], dtype=np.float64)
    served = np.asarray(asyncio.run(scored(service, trained.sampler(), ids)))
    gap, moved = _gap(new, served), _gap(new, old)
    fine = gap < max(0.02, 3 * qualified.mismatch)
    qualified.note("a new sampler", f"{gap:.2g} from the new weights, which moved by {moved:.2g}", _or(fine))


def _resumed(service: Service, lab: Lab, qualified: Qualified) -> None:
    """See whether weights and optimizer come back from a saved state."""
    trained, ids = lab.trained, lab.row.ids.tolist()

    def step(trainer: Trained) -> Scores:
        now = np.concatenate(([np.nan], trainer.forward([scored_datum(ids)])[0])).astype(np.float32)
        trainer.backward([policy_datum(lab.row, now, _at(lab.row, 1.0))], "importance_sampling")
        trainer.step(1e-3)
        return np.asarray(trainer.forward([scored_datum(ids)])[0], dtype=np.float64)

    path = trained.save("qualify")
    saved = lab.scores()
    went_on = step(trained)
    try:
        other = service.loaded(path, optimizer=True)
        loaded = np.asarray(other.forward([scored_datum(ids)])[0], dtype=np.float64)
        weights, optimizer = _gap(saved, loaded), _gap(went_on, step(other))
        other.forget()
    except EngineDead as error:
        qualified.note("a saved state", f"does not come back ({str(error)[-160:]})", "refused")
        return
    qualified.note("weights of a saved state", f"{weights:.2g} from those saved", _or(weights < 1e-3))
    moved = _gap(saved, went_on)
    fine = optimizer < 0.02 * moved + 1e-5
    qualified.note(
        "optimizer of a saved state", f"its next step is {optimizer:.2g} from the one not stopped, of {moved:.2g}", _or(fine)
    )


def _row(ids: Sequence[int]) -> Segment:
    held = np.asarray(ids, dtype=np.int32)
    mask = np.arange(len(held)) >= PROMPT
    nothing = np.zeros(len(held), dtype=np.float32)
    return Segment(0, held, mask, nothing, nothing, np.where(mask, 0, -1).astype(np.int32))


def _at(row: Segment, advantage: float) -> Floats:
    return np.where(np.arange(len(row)) == PLACE, advantage, 0).astype(np.float32)


def _gap(left: npt.ArrayLike, other: npt.ArrayLike) -> float:
    return float(np.abs(np.asarray(left, dtype=np.float64) - np.asarray(other, dtype=np.float64)).mean())


def _or(fine: bool) -> Verdict:
    return "ok" if fine else "refused"
