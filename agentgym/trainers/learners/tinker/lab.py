"""Measure a server's gradients: take a small step along a gradient and see how a row's log-probabilities change."""

# torch is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from agentgym.errors import BadConfig, EngineDead
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.learners.tinker.datums import Floats, imitation_datum, policy_datum, scored_datum
from agentgym.trainers.learners.tinker.service import ServedAdapter
from agentgym.trainers.model.policy import load_policy

if TYPE_CHECKING:
    from agentgym.trainers.learners.tinker.qualify import Qualification

Scores = npt.NDArray[np.float64]
Verdict = Literal["ok", "corrected", "refused", "not known", "none"]
PROMPT, PLACE, SHORT = 8, 11, 14
"""Number of prompt tokens; index of the token with the advantage; number of tokens of the shortened row."""
NEAR = 0.15
"""Maximum relative distance of gradients that count as equal; steps have second-order terms and half precision rounds."""
MIXED = (-0.75, 0.25)
"""Advantages of two tokens in one row, to test that each token contributes by itself."""
GIVEN = "its adapter"
"""Name of the table row about the download of the server's adapter."""
UNCLIPPED = 1e6
"""A `grad_clip` so large that nothing is clipped."""


class Lab:
    """Measures gradients by the changes of a row's log-probabilities after a small step along them.

    The change after a step with advantage 1 at one token is the unit that other changes are compared with.
    """

    def __init__(self, trained: ServedAdapter, ids: list[int], qualified: "Qualification") -> None:
        self.trained, self.qualified = trained, qualified
        self.row, self.short = cut_row(ids), cut_row(ids[:SHORT])
        self.rate, self.unit = 1e-4, np.zeros(len(ids) - 1)
        self.now = self.scores()
        """The row's log-probabilities under the current weights: [targets]."""

    def scores(self) -> Scores:
        """Return the row's log-probabilities, [targets]."""
        return np.asarray(self.trained.forward([scored_datum(self.row.ids.tolist())])[0], dtype=np.float64)

    def datum(self, row: Segment, advantage: float, ratio: float = 1.0) -> object:
        """Return a row for a policy loss with an advantage at one token, and the given ratio at every token."""
        return self.pulled(row, pull_at(row, advantage), ratio)

    def pulled(self, row: Segment, pull: Floats, ratio: float = 1.0) -> object:
        """Return a row for a policy loss with the advantages `pull`, [tokens], and the given ratio at every token."""
        now = np.concatenate(([np.nan], self.now))[: len(row)].astype(np.float32)
        return policy_datum(row, now - np.float32(np.log(ratio)), pull)

    def step(
        self,
        *sent: Sequence[object],
        loss: str = "importance_sampling",
        config: dict[str, float] | None = None,
        clip: float = 0.0,
    ) -> Scores:
        """Send requests, step along their gradient, and return the change of the row's log-probabilities, [targets].

        `sent`: the rows of each request. `loss`, `config`: the server's loss and its bounds. `clip`: bound of the
        gradient's norm; 0 means none.
        """
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
        """Like `step`, but also step back, so that changes do not add up; return the change of the first step, [targets].

        Small changes are not undone. A large step back updates `unit`, because each step leaves a second-order change.
        """
        move = self.step(*sent, loss=loss, config=config, clip=clip)
        part = self.part(move)
        if abs(part) > NEAR / 3:
            back = self.step([self.datum(self.row, -part)])
            self.unit = -back / part if abs(part) > 0.4 else self.unit
        return move

    def part(self, move: Scores) -> float:
        """Return the projection of a change onto the unit change, as a factor."""
        return float(move @ self.unit / max(self.unit @ self.unit, 1e-30))

    def moves(self) -> bool:
        """Set `rate` so that a step changes the log-probabilities slightly, and add a row to the table of findings.

        Returns True if such a step raises the log-probability of the token with the advantage.
        """
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
            "importance_sampling", "raises tokens with an advantage" if rises else "does not train", ok_or_refused(rises)
        )
        if rises:
            self.qualified.losses.append("importance_sampling")
        return bool(rises)

    def near(self, move: Scores, factor: float) -> bool:
        """Return True if a change is approximately the unit change times a factor."""
        return float(np.linalg.norm(move - factor * self.unit)) < NEAR * max(1.0, factor) * float(np.linalg.norm(self.unit))

    def reduction(self) -> None:
        """Determine the divisor of the server's gradients: 1, or the numbers of tokens and rows."""
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

    def mixture(self, model: str) -> None:
        """Determine if gradients of tokens add up for advantages of any sign and size, and if the sum equals torch's.

        A loss that the server lacks is sent in this form: as its derivative with respect to each log-probability (see
        the module `gradient`).
        """
        first_pull, other = pull_at(self.row, MIXED[0]), np.roll(pull_at(self.row, MIXED[1]), 2)
        parts: list[Scores] = []
        for pull in (first_pull, other, 2 * (first_pull + other)):
            parts.append(self.step([self.pulled(self.row, pull)]))
            self.step([self.pulled(self.row, -pull)])
        first, second, both = parts
        gap = distance(both, 2 * (first + second))
        self.qualified.note(
            "tokens of both signs", f"{gap:.2f} of their size from the sum of their parts", ok_or_refused(gap < NEAR)
        )
        ours, why = self._ours(model, 2 * (first_pull + other))
        if ours is None:
            self.qualified.note("its gradient and our torch's", why, "not known")
            return
        gap, size = distance(both, ours), float(np.linalg.norm(both) / max(np.linalg.norm(ours), 1e-30))
        text = f"a difference of {gap:.2f} of its size, {size:.2f} times as long"
        self.qualified.note("its gradient and our torch's", text, ok_or_refused(gap < NEAR))

    def _ours(self, model: str, pull: Floats) -> tuple[Scores | None, str]:
        """Return the row's change after the same step along our torch gradient, or None with the reason."""
        with TemporaryDirectory() as folder:
            if not self._downloads(model, Path(folder)):
                return None, "no adapter to compare with"
            try:
                adapted: Any = importlib.import_module("peft").PeftModel  # with any release: SkyRL pins an early one
                policy = adapted.from_pretrained(load_policy(model)[0], folder, is_trainable=True)
            except Exception as error:  # peft and transformers raise many types for missing parts
                return None, f"no model to compare with ({str(error)[:160]})"
        ids = torch.as_tensor(self.row.ids, dtype=torch.long)
        divided = 1 if self.qualified.reduction == "tokens" else len(ids) - 1

        def logprobs() -> torch.Tensor:
            return torch.log_softmax(policy(ids[None, :-1]).logits[0].float(), -1).gather(-1, ids[1:, None])[:, 0]

        before = logprobs()
        (-(torch.as_tensor(pull[1:]) * before).sum() / divided).backward()
        with torch.no_grad():
            for parameter in policy.parameters():
                if parameter.grad is not None:
                    parameter -= self.rate * parameter.grad
            return (logprobs() - before).double().numpy(), ""

    def _downloads(self, model: str, folder: Path) -> bool:
        """Download the server's adapter into a folder, and add a row to the findings; return False if the server refuses.

        Raises:
            EngineDead: the server dies during the request.
        """
        try:
            self.trained.adapter(model, folder)
        except BadConfig as error:
            refusal = str(error)
        except EngineDead as error:
            if not self.trained.service.healthy():
                raise
            refusal = str(error)
        else:
            self.qualified.note(GIVEN, "given, so that another engine can sample", "ok")
            return True
        self.qualified.note(GIVEN, refusal, "none")
        return False

    def accumulation(self) -> None:
        """Determine if requests add up, if a step resets the gradient, and if imitation has the same gradient."""
        once = [self.datum(self.row, 1.0)]
        twice = self.moved(once, once)
        expected = 2.0 if self.qualified.reduction == "tokens" else 1.0
        adds = self.near(twice, expected)
        self.qualified.note(
            "requests before a step", f"add up to {self.part(twice):.2f} (expected {expected:g})", ok_or_refused(adds)
        )
        self.step(once)
        rest = float(np.linalg.norm(self.step())) / float(np.linalg.norm(self.unit))
        self.step([self.datum(self.row, -1.0)])
        self.qualified.note("a step without a gradient", f"moves {rest:.2f}", ok_or_refused(rest < NEAR))
        imitated = self.moved([imitation_datum(self.row, pull_at(self.row, 1.0))], loss="cross_entropy")
        plain = self.near(imitated, 1.0) if self.qualified.reduction == "tokens" else False
        if plain:
            self.qualified.losses.append("cross_entropy")
        used = "ok" if plain else "corrected"
        self.qualified.note(
            "cross_entropy", f"{self.part(imitated):.2f} times" + ("" if plain else "; importance_sampling instead"), used
        )

    def bounds(self) -> None:
        """Determine if the losses `ppo` and `cispo` respect the bounds in the request."""
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
            for ratio, advantage, (low, high), expected in cases:
                config = {"clip_low_threshold": low, "clip_high_threshold": high}
                try:
                    move = self.moved([self.datum(self.row, advantage, ratio)], loss=name, config=config)
                except EngineDead as error:
                    parts, fine = [f"refused by the server ({str(error)[-80:]})"], False
                    break
                parts.append(f"{self.part(move):.2f} for {expected:g}")
                fine = fine and self.near(move, expected)
            if fine:
                self.qualified.losses.append(name)
            text = ", ".join(parts) + ("" if fine else "; our own loss, sent as importance_sampling, instead")
            self.qualified.note(f"{name} at the bounds", text, "ok" if fine else "corrected")

    def clipping(self) -> None:
        """Determine if the server clips the norm of a gradient on request."""
        move = self.moved([self.datum(self.row, 1.0)], clip=1e-6)
        self.qualified.clips_gradients = float(np.linalg.norm(move)) < 0.1 * float(np.linalg.norm(self.unit))
        text = "done if requested" if self.qualified.clips_gradients else f"not done: train with --grad-clip {UNCLIPPED:g}"
        self.qualified.note("clipping of gradients", text, "ok" if self.qualified.clips_gradients else "none")


def cut_row(ids: Sequence[int]) -> Segment:
    """Return tokens as a row with a prompt of `PROMPT` tokens; the rest is the reply."""
    array = np.asarray(ids, dtype=np.int32)
    mask = np.arange(len(array)) >= PROMPT
    nothing = np.zeros(len(array), dtype=np.float32)
    return Segment(0, array, mask, nothing, nothing, np.where(mask, 0, -1).astype(np.int32))


def pull_at(row: Segment, advantage: float) -> Floats:
    """Return the advantages of a row's tokens, [tokens]: `advantage` at the token `PLACE`, 0 elsewhere."""
    return np.where(np.arange(len(row)) == PLACE, advantage, 0).astype(np.float32)


def distance(left: Scores, right: Scores) -> float:
    """Return the distance of two changes, relative to the size of the second."""
    return float(np.linalg.norm(left - right) / max(np.linalg.norm(right), 1e-30))


def gap_of(left: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Return the mean absolute difference of two lists of numbers."""
    return float(np.abs(np.asarray(left, dtype=np.float64) - np.asarray(other, dtype=np.float64)).mean())


def ok_or_refused(fine: bool) -> Verdict:
    """Return the verdict of a pass/fail check."""
    return "ok" if fine else "refused"
