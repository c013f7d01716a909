"""What a fake Tinker server trains: one adapter of a policy, with the losses that servers have."""

import copy

import numpy as np
import torch
from peft import LoraConfig

from agentgym.trainers.model.lora import TARGETS


class Adapter:
    """One adapter, its gradient and its optimizer."""

    def __init__(self, base, rank, seed):
        self.model, self.rank = copy.deepcopy(base), rank
        torch.manual_seed(seed)
        self.model.add_adapter(LoraConfig(r=rank, lora_alpha=32, target_modules=list(TARGETS)))
        self.weights = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.AdamW(self.weights.values())
        self.rows = 0

    def passed(self, data, loss, config, behaviour, *, backward):
        width = max(len(ids) for ids, _ in data)
        ids = torch.tensor([row + [0] * (width - len(row)) for row, _ in data])
        found = []
        with torch.set_grad_enabled(backward):
            every = torch.log_softmax(self.model(ids).logits, -1)
            total = torch.zeros(())
            for number, (row, inputs) in enumerate(data):
                targets = torch.as_tensor(inputs["target_tokens"])
                if behaviour.scales_advantages and "advantages" in inputs and inputs["advantages"].any():
                    inputs["advantages"] = inputs["advantages"] / abs(inputs["advantages"]).max()
                logprobs = every[number, : len(row)].gather(-1, targets[:, None])[:, 0]
                if backward:
                    losses = LOSSES[loss](logprobs, {k: torch.as_tensor(v) for k, v in inputs.items()}, config)
                    mask = torch.as_tensor(inputs.get("weights", np.ones(len(row), np.float32)))
                    total = total + losses.sum() / (1 if behaviour.reduction == "tokens" else mask.sum().clamp(min=1e-9))
                found.append(torch.roll(logprobs.detach(), behaviour.shift))
            if backward:
                (behaviour.scaled_gradient * total).backward()
                for name, parameter in self.weights.items():
                    if behaviour.drops and behaviour.drops in name:
                        parameter.grad = None
                self.rows += len(data)
        return found

    def step(self, adam, behaviour):
        for parameter in self.weights.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if behaviour.reduction == "rows":
                parameter.grad /= max(self.rows, 1)
        most = adam["grad_clip_norm"] if behaviour.clips_gradients and adam.get("grad_clip_norm") else float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.values(), most))
        for group in self.optimizer.param_groups:
            group |= {"lr": adam["learning_rate"], "betas": (adam["beta1"], adam["beta2"]), "eps": adam["eps"]}
            group["weight_decay"] = adam["weight_decay"]
        self.optimizer.step()
        self.rows = 0
        if not behaviour.keeps_gradient:
            self.optimizer.zero_grad()
        return norm

    def state(self):
        return {
            "rank": self.rank,
            "weights": {name: value.detach().clone() for name, value in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
        }

    def load(self, state, optimizer):
        with torch.no_grad():
            for name, value in state["weights"].items():
                self.weights[name].copy_(value)
        if optimizer:
            self.optimizer.load_state_dict(state["optimizer"])


def _ratio(logprobs, inputs):
    return (logprobs - inputs["logprobs"]).exp()


def _clipped(ratio, config):
    return ratio.clamp(config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2))


def _ppo(logprobs, inputs, config):
    ratio = _ratio(logprobs, inputs)
    return -torch.minimum(ratio * inputs["advantages"], _clipped(ratio, config) * inputs["advantages"])


LOSSES = {
    "cross_entropy": lambda logprobs, inputs, config: -logprobs * inputs["weights"],
    "importance_sampling": lambda logprobs, inputs, config: -_ratio(logprobs, inputs) * inputs["advantages"],
    "ppo": _ppo,
    "cispo": lambda logprobs, inputs, config: (
        -_clipped(_ratio(logprobs, inputs), config).detach() * logprobs * inputs["advantages"]
    ),
}
