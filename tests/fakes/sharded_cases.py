"""Updates on stored episodes by a learner in parts; run by test_sharded in as many processes as were started.

`python sharded_cases.py OUT CASE…`, with RANK and WORLD_SIZE set: writes OUT/N.json, N the number of processes. One process
trains whole weights. OUT/policy is the model's folder.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from small_runs import small
from torch.distributed.tensor import DTensor
from two_processes import stored

from agentgym.episodes.episode import groups
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import UpdateRun
from agentgym.trainers.learners.sharded import local
from agentgym.trainers.loop import learn
from agentgym.trainers.losses.interface import resolve_loss
from agentgym.trainers.weights.gather import full

CASES = {
    "fp32": {},
    "checkpointing": {"gradient_checkpointing": True, "attention": "sdpa"},
    "kl": {"kl": 0.1},
    "lora": {"lora_rank": 4, "kl": 0.1, "sft_muon": False, "lr": 1e-2},
    "bf16": {"precision": "bf16"},
    "lora bf16": {"precision": "bf16", "lora_rank": 4, "sft_muon": False, "lr": 1e-2},
    "muon": {"muon": True},
    "8 bits": {"optimizer": "adamw8bit"},
    "prefixes": {"share_prefixes": True, "attention": "split"},
}
STEPS = int(os.environ.get("AGENTGYM_TEST_STEPS", "3"))


class Case:
    """A learner of a case, fresh or from a checkpoint, and this process's episodes."""

    def __init__(self, out, name, folder=None):
        self.accelerator = Accelerator(cpu=True)
        number = self.accelerator.num_processes
        sharded = {"processes": number, "tasks_per_step": 4, "sft_batch": 4, "sharding": "fsdp2"} if number > 1 else {}
        self.config = small(
            out,
            str(out / "policy"),
            minibatches=1,
            credit="grpo",
            batch_tokens=60,
            **sharded,
            **{"precision": "fp32", **CASES[name]},
        )
        torch.manual_seed(0)  # adapters begin at random
        self.learner = local(self.accelerator, self.config, folder or out / "policy", state={"resumed": folder is not None})
        self.learner.begin("rl", out / f"{name} {number}")
        if folder is not None:
            self.learner.load_state_dict(torch.load(folder / "trainer.pt", weights_only=True))
        self.mine = groups(stored(12))[self.accelerator.process_index :: number]

    def step(self, number):
        """Update twice: by the reward, and by imitation; return what was measured."""
        run = UpdateRun(self.config, self.learner, resolve("grpo"), resolve_loss(self.config))
        metrics = learn(run, self.mine, number)
        imitation = self.learner.imitate([episode for group in self.mine for episode in group], self.config.lr)
        return [metrics["loss"], metrics["grad_norm"], imitation["nll"], imitation["grad_norm"]]

    def served(self):
        """Publish, and return the weights that the engine samples from and how far they are from the learner's."""
        asyncio.run(self.learner.publish(1))
        engine = {name: value.detach() for name, value in self.learner.engine.model.named_parameters()}
        parts = self.learner.model.named_parameters()
        own = {name: full(value.detach()).to(engine[name].dtype) for name, value in parts}
        return engine, max(float((engine[name] - own[name]).abs().max()) for name in own)

    def save(self, folder):
        """Write a checkpoint, as a run does."""
        self.learner.save(folder)
        if isinstance(next(self.learner.model.parameters()), DTensor):
            self.learner.save_parts(folder)  # what is written is as it is now, whatever the next step does
        if self.accelerator.is_main_process:
            torch.save(self.learner.state_dict(), folder / "trainer.pt")
        self.accelerator.wait_for_everyone()

    def shares(self):
        """Return how many numbers this process holds of weights and of the optimizers' averages, and of how many."""
        tensors = (self._parameters(), self._averages())
        return [sum(_mine(v).numel() for v in values) for values in tensors] + [
            sum(v.numel() for v in values) for values in tensors
        ]

    def states(self):
        """Return the classes of the averages that this process holds."""
        return sorted({type(_mine(value)).__name__ for value in self._averages()})

    def _averages(self):
        return [v for o in self.learner.trained.optimizers for s in o.state.values() for v in s.values() if v.dim()]

    def _parameters(self):
        return list(self.learner.model.parameters())


def _mine(value):
    """Return this process's part of a tensor."""
    return value.to_local() if isinstance(value, DTensor) else value


def played(out, name):
    """Take the steps of a case, keep a checkpoint before the last, and return what came of it."""
    case = Case(out, name)
    number = case.accelerator.num_processes
    curve = [case.step(step) for step in range(STEPS - 1)]
    folder = out / f"{name} {number}" / "saved"
    case.save(folder)
    curve.append(case.step(STEPS - 1))
    if number > 1:
        case.learner.parts_written(wait=True)
        case.accelerator.wait_for_everyone()
    engine, own_engine = case.served()
    again = Case(out, name, folder)
    resumed = again.step(STEPS - 1)
    weights = again.served()[0]
    alike = max(float((engine[key] - weights[key]).abs().max()) for key in engine)
    if case.accelerator.is_main_process:
        torch.save(engine, out / f"{name} {number}" / "weights.pt")
    types = sorted({str(value.dtype) for value in case._parameters()})
    made = {"curve": curve, "resumed": resumed, "alike": alike, "apart": own_engine, "shares": case.shares(), "types": types}
    made["states"] = case.states()
    other = out / f"{name} {2 if number == 4 else 4}" / "saved"
    if number > 1 and (other / "trainer.pt").exists():  # by another number of processes
        made["elsewhere"] = Case(out, name, other).step(STEPS - 1)
    case.learner.close()
    return made


if __name__ == "__main__":
    place, *names = sys.argv[1:]
    torch.set_num_threads(1)
    made = {name: played(Path(place), name) for name in names}
    if Accelerator(cpu=True).is_main_process:
        Path(place, f"{Accelerator(cpu=True).num_processes}.json").write_text(json.dumps(made))
