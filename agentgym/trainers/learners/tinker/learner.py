"""The learner on a server of the Tinker API: rows are sent, gradients and weights stay on the server."""

# torch and transformers are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from agentgym.core.folders import write_whole
from agentgym.engines.shards import shared_memory
from agentgym.engines.tinker import TinkerEngine, scored
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, BadData, EngineDead
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.minibatches import MiniBatch
from agentgym.trainers.data.packing import count, token_weights
from agentgym.trainers.data.segments import Segment, behaviours, build, mismatches
from agentgym.trainers.learners import parts
from agentgym.trainers.learners.interface import Learner, learner
from agentgym.trainers.learners.step import CannotContinue
from agentgym.trainers.learners.tinker import datums, gradient
from agentgym.trainers.learners.tinker.qualify import Qualification, qualify, read_qualified, show
from agentgym.trainers.learners.tinker.service import ServedAdapter, Service
from agentgym.trainers.learners.updates import UpdateResult
from agentgym.trainers.needs.interface import Values
from agentgym.trainers.run.fits import parameters
from agentgym.trainers.seam import CALLER, Stage, Within

FILE = "tinker.json"
"""Name of the file in a model folder with the path of the weights on the server."""
PROBE = 24
"""Number of tokens in the row whose log-probabilities identify loaded weights."""
LARGEST_MISMATCH = 0.1
"""Mean difference of log-probabilities, in nats, above which the sampler clearly serves other weights."""


@learner("tinker")
class RemoteLearner(Learner):
    """An adapter that a server trains and samples from; this process plays, computes credit and weights the tokens."""

    def __init__(
        self,
        accelerator: Accelerator,
        config: TrainConfig,
        folder: Path,
        *,
        url: Annotated[str, CALLER],
        base: Annotated[str, CALLER] = "",
        qualified: Annotated[str, CALLER] = "",
        seconds: Annotated[float, Within(1)] = 1800.0,
        patience: Annotated[float, Within(1)] = 30.0,
        state: Mapping[str, object],
    ) -> None:
        self.config = config
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        saved = _read(folder) if state.get("resumed") else None
        own = AutoConfig.from_pretrained(saved["model"] if saved else str(folder), trust_remote_code=False).get_text_config()
        self.context = min(config.context_tokens or own.max_position_embeddings, own.max_position_embeddings)
        self.service = Service(url, seconds=seconds, patience=patience)
        try:
            self.model = saved["model"] if saved else str(folder)
            self.base = self.service.base_model(base or (saved["base"] if saved else ""))
            self.qualified = Qualification(**saved["qualified"]) if saved else self._qualified(qualified)
            self.trained = self._loaded(saved) if saved else self.service.trainer(self.base, config.lora_rank, config.seed)
            self.engine: Any = self._engine(accelerator.device)
        except BaseException:
            self.service.close()
            raise
        self._reference: object = None
        self._checkpoint: dict[str, object] | None = saved
        """Checkpoint on the server with the current weights; None before the first save."""

    def _engine(self, device: torch.device) -> Any:
        """Return the sampling engine: the server itself, or vLLM, which receives each version of the adapter."""
        if self.config.engine_kind.sent_weights:
            return parts.engine(self.config, Path(self.model), None, self.tokenizer, device)
        return TinkerEngine(self.service, self.tokenizer, self.context)

    def _qualified(self, file: str) -> Qualification:
        """Qualify the server or, if `file` is not empty, read an earlier qualification from it.

        Raises:
            BadConfig: the server does not support this run.
        """
        if file:
            qualified = read_qualified(file)
        else:
            qualified = qualify(self.service, self.base, self.model, self.tokenizer, rank=self.config.lora_rank)
        reasons = qualified.refused(self.config)
        if reasons:
            raise BadConfig(f"{self.service.url} cannot train this run: {'; '.join(reasons)}.\n{show(qualified)}")
        return qualified

    def _loaded(self, saved: dict[str, Any]) -> ServedAdapter:
        """Return the adapter of a checkpoint after comparing its log-probabilities with the saved ones.

        Raises:
            BadData: the adapter cannot be loaded, or its log-probabilities differ.
        """
        try:
            trained = self.service.loaded(saved["path"], optimizer=True)
            logprobs = trained.forward([datums.scored_datum(saved["probe"]["ids"])])[0]
        except EngineDead as error:
            raise BadData(
                f"{saved['path']} could not be loaded ({error}); remove {saved['folder']} to use an earlier one"
            ) from error
        off = float(np.abs(np.asarray(logprobs) - np.asarray(saved["probe"]["logprobs"])).max())
        if not off < 1e-3:
            raise BadData(
                f"{saved['path']} holds other weights than were saved: its log-probabilities are off by up to {off:.2g}; "
                f"remove {saved['folder']} to use an earlier one"
            )
        return trained

    def about(self) -> dict[str, Any]:
        """Return metadata for the log: numbers of parameters and trained parameters; attention and precision are unknown."""
        architecture = AutoConfig.from_pretrained(self.model, trust_remote_code=False)
        with torch.device("meta"):
            layers = AutoModelForCausalLM.from_config(architecture).named_modules()
        adapted = [layer for name, layer in layers if name.rpartition(".")[2] in self.config.lora_targets]
        rank = self.config.lora_rank
        return {
            "parameters": parameters(architecture),
            "trained": sum(rank * (layer.in_features + layer.out_features) for layer in adapted),
            "attention": "the server's",
            "precision": "the server's",
        }

    def begin(self, phase: str, folder: Path) -> None:
        """Write `qualified.json` into the run's folder.

        Before the phase `rl`, also make the reference policy if there is a KL penalty, and start with a fresh optimizer
        after an SFT warm start (not when resuming).
        """
        write_whole(folder / "qualified.json", json.dumps(asdict(self.qualified), indent=2) + "\n")
        if phase == "rl":
            if self.config.kl:
                self._reference = self.service.sampler(self.base)
            if self.config.sft_steps and self._checkpoint is None:
                before = self.trained
                self.trained = self.service.loaded(self._saved()["path"], optimizer=False)
                before.forget()

    def imitate(self, episodes: Sequence[Episode], lr: float) -> dict[str, float]:
        """Update the policy on demonstrations and return the metrics."""
        rows = build(episodes)
        total = count(rows, "token")
        if not total:
            return {}
        weights = token_weights(rows, total=total)
        before = gradient.imitation(self.trained, rows, weights, self.qualified)
        self._step(lr)
        return {
            "nll": -float(np.concatenate([logprobs[row.mask] for logprobs, row in zip(before, rows, strict=True)]).mean())
        }

    def old_logprobs(self, rows: list[Segment], loss: Stage) -> Sequence[npt.NDArray[np.float32]]:
        """Return the server's log-probabilities, [tokens] per row.

        Raises:
            CannotContinue: the episodes were clearly sampled from other weights.
        """
        scored = self.score(rows)["logprobs"]
        self._check_sampler(mismatches(rows, behaviours(rows, scored)))
        return scored

    def update(self, minibatch: MiniBatch, loss: Stage, step: int) -> UpdateResult:
        """Take one optimizer step on the rows of a mini-batch, with the server's gradients.

        Raises:
            CannotContinue: the loss is not finite.
        """
        config, known = self.config, minibatch.old_logprobs or []
        if config.kl:
            keep = list(range(len(minibatch.rows)))
        else:  # a row without advantage has no gradient
            keep = [i for i, row in enumerate(minibatch.rows) if row.advantages.any()]
        if not keep:
            return UpdateResult()
        rows, old = [minibatch.rows[i] for i in keep], [known[i] for i in keep]
        weights = [minibatch.weights[i] for i in keep]
        work = gradient.Work(rows, weights, old, self._references(rows) if config.kl else None)
        sums = gradient.policy(self.trained, work, loss, step, config, self.qualified)
        if not torch.isfinite(sums["loss"][0]):
            raise CannotContinue(f"the loss is {float(sums['loss'][0])}; try a lower --lr")
        self._step(config.lr_at(step))
        return UpdateResult({name: pair for name, pair in sums.items() if not torch.isnan(pair[0])})

    def _step(self, lr: float) -> None:
        clip = self.config.grad_clip if self.qualified.clips_gradients else 0.0
        self.trained.step(lr, weight_decay=self.config.weight_decay, clip=clip)
        self._checkpoint = None

    def _check_sampler(self, gaps: npt.NDArray[np.floating]) -> None:
        """Check from the gaps (trainer minus engine log-probability) that the sampler used the trained weights.

        Raises:
            CannotContinue: the sampler clearly used other weights.
        """
        known = gaps[~np.isnan(gaps)]
        if len(known) and float(np.abs(known).mean()) > max(LARGEST_MISMATCH, 10 * self.qualified.mismatch):
            sampler = self.config.engine if self.config.engine_kind.sent_weights else self.service.url
            raise CannotContinue(
                f"{sampler} sampled from other weights than {self.service.url} trains: log-probabilities "
                f"differ by {np.abs(known).mean():.3g} on average, {self.qualified.mismatch:.2g} when it was qualified"
            )

    def _references(self, rows: Sequence[Segment]) -> list[datums.Floats]:
        """Return the log-probabilities of the model without its adapter, [tokens] per row."""

        async def all_rows() -> list[list[float]]:
            return await asyncio.gather(*(scored(self.service, self._reference, row.ids.tolist()) for row in rows))

        return [datums.placed(row, values) for row, values in zip(rows, asyncio.run(all_rows()), strict=True)]

    def score(self, rows: list[Segment]) -> Values:
        """Return `logprobs` of the trained tokens, [tokens] per row; `entropy` is NaN, as the server does not report it."""
        if not rows:
            return {"logprobs": [], "entropy": []}
        scores = self.trained.forward([datums.scored_datum(row.ids.tolist()) for row in rows])
        placed = [datums.placed(row, values) for row, values in zip(rows, scores, strict=True)]
        return {"logprobs": placed, "entropy": [np.full(len(row), np.nan, dtype=np.float32) for row in rows]}

    async def publish(self, version: int) -> None:
        """Make the engine sample from the current weights, as policy version `version`.

        Running vLLM servers (`vllm:URL`) must score a known text like the training server.
        """
        if not self.config.engine_kind.sent_weights:
            await self.engine.serve(self.trained.sampler, version)
            return
        with TemporaryDirectory(dir=shared_memory()) as folder:
            await asyncio.to_thread(self.trained.adapter, self.model, Path(folder))
            differences: dict[str, list[float]] = {}
            if self.config.engine_kind.of_address:
                known = [datums.scored_datum(self.engine.known)]
                differences["expected"] = (await asyncio.to_thread(self.trained.forward, known))[0].tolist()
            await self.engine.load_weights(folder, version, **differences)

    def _saved(self) -> dict[str, Any]:
        """Save the server's state once per version of the weights; return the content of `FILE`.

        It has `path`, `probe` (`ids` and their `logprobs`, which identify the weights), `url`, `base`, `model`, `qualified`.
        """
        if self._checkpoint is None:
            ids = self.tokenizer.encode(" ".join(str(number) for number in range(PROBE)), add_special_tokens=False)[:PROBE]
            probe = {"ids": ids, "logprobs": np.asarray(self.trained.forward([datums.scored_datum(ids)])[0]).tolist()}
            path = self.trained.save("agentgym")
            values = {"url": self.service.url, "base": self.base, "model": self.model, "qualified": asdict(self.qualified)}
            self._checkpoint = {"path": path, "probe": probe, **values}
        return self._checkpoint

    def save(self, folder: Path) -> None:
        """Write a folder with the tokenizer and the path of the weights on the server.

        Raises:
            BadData: the folder cannot be written.
        """
        saved = self._saved()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.tokenizer.save_pretrained(folder)
            (folder / FILE).write_text(json.dumps(saved, indent=2) + "\n", encoding="utf-8")
        except Exception as error:
            raise BadData(f"{folder}: where the weights are could not be written ({error})") from error

    def state_dict(self) -> dict[str, object]:
        """Return the path of weights and optimizer on the server, after saving them if they have changed."""
        return {"path": self._saved()["path"]}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Check that the state belongs to the adapter that is already loaded.

        Raises:
            BadData: the state belongs to another checkpoint.
        """
        if self._checkpoint is None or state["path"] != self._checkpoint["path"]:
            raise BadData(f"the checkpoint is of {state['path']}; its {FILE} names another")

    def close(self) -> None:
        """End the session; saved states stay on the server."""
        self.engine.close()
        self.service.close()


def _read(folder: Path) -> dict[str, Any]:
    try:
        return {**json.loads((folder / FILE).read_text(encoding="utf-8")), "folder": str(folder)}
    except (OSError, ValueError) as error:
        raise BadData(f"{folder / FILE}: damaged checkpoint ({error}); remove its folder to use an earlier one") from error
