"""Sampling and updates on a device that is not here and on the host: `on_card.py engine|update` prints both as JSON."""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import card
import tiny
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

from agentgym.engines import Draft, Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import Episode, Turn, groups
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.critic import Critic
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.losses.interface import LOSSES, resolve_loss, top_of
from agentgym.trainers.model import lora
from agentgym.trainers.model.precision import DTYPES, masters

DIFFERS = {"icepop"}  # needs an engine that computes by itself
CASES: dict[str, dict[str, Any]] = {
    **{method: {"attention": method} for method in ("split", "sdpa", "rows")},
    "bf16": {"precision": "bf16"},
    "bf16, gradient checkpointing": {"precision": "bf16", "gradient_checkpointing": True},
    "LoRA": {"precision": "bf16", "lora_rank": 4},
    "Muon": {"muon": True},
    "shared prefixes": {"share_prefixes": True},
    "shared prefixes, sdpa": {"share_prefixes": True, "attention": "sdpa"},
    "KL": {"kl": 0.1},
    "critic": {"critic": True},
    "two mini-batches": {"minibatches": 2, "epochs": 2},
    **{
        f"loss {name}": {"loss": name, "minibatches": 2} for name in LOSSES.names() if name != "icepop"
    },  # which needs an engine that differs
}


def sampled(device: Any, kind: str) -> list[Any]:
    """Return two turns of four sessions, one built on a draft, and scores."""
    folder = tiny.folder(Path(tempfile.mkdtemp()) / "policy", kind=kind)
    model = AutoModelForCausalLM.from_pretrained(folder)
    rounds: list[Any] = []

    async def play(engine: HFEngine) -> None:
        prompts = [list(range(1, 6 + i)) for i in range(4)]
        for turn, strict in enumerate((False, True)):
            options: dict[str, Any] = dict(top_p=0.9, top_k=5, min_p=0.01, repetition_penalty=1.2) if strict else {}
            replies = await asyncio.gather(
                *(
                    engine.generate(
                        prompt, Sampling(max_tokens=8, seed=i, temperature=(1.0, 0.7, 0.0, 1.0)[i], **options), f"s{i}"
                    )
                    for i, prompt in enumerate(prompts)
                )
            )
            prompts = [[*prompt, *reply.ids, 3, 4] for prompt, reply in zip(prompts, replies, strict=True)]
            rounds.extend([reply.ids, reply.logprobs] for reply in replies)
            del turn
        draft = Draft(rounds[0][0], rounds[0][1], lenience=1.0)
        again = await engine.generate(list(range(1, 6)), Sampling(max_tokens=8, seed=5), "draft", draft=draft)
        rounds.append([again.ids, again.logprobs, await engine.score([1, 2, 3, 4, 5], 0.7)])
        await engine.load_weights(model.named_parameters(), 1)
        await engine.load_weights(str(folder), 2)

    with card.Card() if device != "cpu" else contextlib.nullcontext():
        asyncio.run(play(HFEngine(model.to(device), None, slots=4, context=128, device=device)))
    return rounds


def episodes() -> list[Episode]:
    """Return two groups of two episodes of three turns and of one; half of them succeed."""
    numbers = torch.Generator().manual_seed(0)
    found: list[Episode] = []
    for index in range(4):
        ids, turns = list[int](), list[Turn]()
        for _ in range(3 if index in (0, 3) else 1):
            drawn = torch.randint(1, 270, (18,), generator=numbers).tolist()
            output = drawn[6:]
            turns.append(Turn("o", prompt_ids=[*ids, *drawn[:6]], output_ids=output, logprobs=[-5.6] * len(output)))
            ids = [*ids, *drawn]
        turns[-1].reward = float(index % 2)
        name = f"task {index // 2}"
        found.append(
            Episode("measured", name, name, index % 2, turns=turns, success=bool(index % 2), reward=float(index % 2))
        )
    return found


def updated(folder: Path, device: Any, **options: Any) -> list[float]:
    """Return loss and gradient's norm of an update, and the loss of the next."""
    options = dict(options)
    muon, critic, attention = options.pop("muon", False), options.pop("critic", False), options.pop("attention", "split")
    base = TrainConfig(model="Qwen/Qwen2.5-1.5B", env="rlvr/Household-v0", minibatches=1, batch_tokens=80, precision="fp32")
    config = replace(base, **options)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[config.precision])
    if config.lora_rank:
        lora.add_adapters(model, config)
    loss, found = resolve_loss(config), episodes()
    for name in loss.attributes["needs"]:
        for turn in (turn for episode in found for turn in episode.turns):
            turn.extra[name] = [0.5] * len(turn.output_ids)
    with card.Card() if device != "cpu" else contextlib.nullcontext():
        accelerator = Accelerator(cpu=True)
        accelerator.state.device = torch.device(device)
        kinds: dict[str, Any] = {"shared": config.share_prefixes}
        scorer = Scorer(
            model.to(device), 1.0, attention, gradient_checkpointing=config.gradient_checkpointing, states=critic,
            top=top_of(loss) if config.loss != "clip" else 0, **kinds,
        )  # fmt: skip
        trained = TrainedModel(accelerator, scorer, [])
        if critic:
            trained.critic = Critic(accelerator, model.config.hidden_size, lr=1e-3, policy_weight=0.1, clip=0.2)
            for turn in (turn for episode in found for turn in episode.turns):
                turn.extra |= {"returns": [0.5] * len(turn.output_ids), "values": [0.1] * len(turn.output_ids)}
        if config.kl:
            frozen = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[config.precision]).to(device)
            trained.reference = Scorer(frozen, 1.0, attention, **kinds).eval().requires_grad_(False)
        trained.masters = masters(model, config.precision, 1)
        trained.optimizers = list(optimizers(trained.masters or model, 1e-4, muon=muon))
        first = reinforce(trained, groups(found), resolve("grpo"), config, 0)
        second = reinforce(trained, groups(found), resolve("grpo"), config, 1)
    return [first["loss"], first["grad_norm"], second["loss"]]


def outcome(work: Callable[[], Any]) -> Any:
    """Return what comes out, or the error in words."""
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def main(part: str) -> dict[str, Any]:
    """Return by case what came out on the host and on the card."""
    devices = ("cpu", card.DEVICE)
    if part == "engine":
        kinds = ("Qwen3", "Qwen2", "Llama", "Mistral")  # the last takes the generic path
        return {kind: [outcome(partial(sampled, device, kind)) for device in devices] for kind in kinds}
    folder = tiny.folder(Path(tempfile.mkdtemp()) / "policy")
    return {
        name: [outcome(partial(updated, folder, device, **options)) for device in devices] for name, options in CASES.items()
    }


if __name__ == "__main__":
    if card.DEVICE is None:
        sys.exit(5)
    print(json.dumps(main(sys.argv[1])))
