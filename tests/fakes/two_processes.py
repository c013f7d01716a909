"""One update on stored episodes, by as many processes as were started; run by test_several_processes.

Each process takes the groups of its rank: `python two_processes.py OUT CASE`, with RANK and WORLD_SIZE set.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from tiny_rows import tiny_model, token_episode

from agentgym.episodes.episode import groups
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import credit, resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.critic import Critic
from agentgym.trainers.learners.step import Scorer, TrainedModel, scored
from agentgym.trainers.learners.updates import UpdateMetrics
from agentgym.trainers.losses.interface import loss, resolve_loss
from agentgym.trainers.model.precision import masters
from agentgym.trainers.needs.interface import score
from agentgym.trainers.selections.interface import uniform

CASES = {
    "token": {},
    "constant": {"loss_aggregation": "constant", "constant": 20.0},
    "kept": {"select": "keep", "loss_aggregation": "turn"},
    "kl": {"kl": 0.1},
    "entropy": {"credit": "by_entropy"},
    "chosen": {"loss": "highest_entropy"},
    "reduced once": {"gradient_reduction": "update", "processes": 2, "tasks_per_step": 16},
    "reduced once, masters": {"gradient_reduction": "update", "processes": 2, "precision": "bf16"},
    "masters": {"precision": "bf16"},
    "shared": {"share_prefixes": True, "batch_tokens": 200},
    "marked": {"loss": "kl_cov"},
    "steady": {"loss": "entropy_band"},
    "critic": {"credit": "turn_gae", "select": "keep"},
    "corrected": {"engine": "vllm", "model": "x", "minibatches": 2},
}


@credit("by_entropy", needs=("entropy", "logprobs"))
def by_entropy(group):
    """Each token is credited with its entropy, less the trainer's own log-probability, where the episode succeeded."""
    return [
        np.concatenate([t.extra["entropy"] - t.extra["logprobs"] for t in episode.turns]) * episode.reward
        for episode in group
    ]


def highest(update, *, share):
    """The tokens of this process with the highest entropy; in this file one process has all that are trained."""
    return update.extra["entropy"] >= np.quantile(update.extra["entropy"], 1 - share)


@loss("highest_entropy", needs=("entropy",), choose=highest)
def highest_entropy(tokens, *, share: float = 0.25):
    """The policy gradient of those tokens."""
    return -tokens.advantages * tokens.logprobs


def stored(prompt=0):
    """Four groups of four: of each pair the second is uniform, so that one of two processes has nothing to train.

    `prompt`: how many tokens the episodes of a group begin with alike.
    """
    rng, found = np.random.default_rng(3), []
    for number in range(4):
        for attempt in range(4):
            episode = token_episode(rng, int(rng.integers(1, 5)), task=f"t{number}")
            for turn in episode.turns:
                turn.prompt_ids = [*range(number, number + prompt), *turn.prompt_ids]
            episode.attempt, episode.success = attempt, number % 2 == 0 and attempt % 2 == 0
            episode.reward = episode.turns[-1].reward = float(episode.success)
            found.append(episode)
    return found


def update(case):
    """Take one step and return the metrics and the weights after it."""
    accelerator = Accelerator(cpu=True)
    config = TrainConfig(**{"minibatches": 1, "credit": "grpo", "grad_clip": 1e9, "batch_tokens": 40, **CASES[case]})
    model, reference, shared = tiny_model().double(), tiny_model(seed=1).double(), config.share_prefixes
    chosen = resolve(config.credit)
    states = "values" in chosen.needs
    method = "split" if shared else "rows"
    scorers = [Scorer(model, 0.7, method, shared=shared, states=states), Scorer(reference, 0.7, method, shared=shared)]
    if config.precision == "bf16":
        model.to(torch.bfloat16)
    learner = TrainedModel(accelerator, accelerator.prepare(scorers[0]), [], scorers[1])
    learner.masters = masters(model, config.precision, accelerator.num_processes)
    learner.optimizers = [torch.optim.SGD((learner.masters or model).parameters(), lr=1.0)]
    if states:
        learner.critic = Critic(accelerator, 32, lr=1.0, policy_weight=0.5, clip=0.0)
        for parameter in learner.critic.parameters():  # from 0 it would have no gradient by the policy
            torch.nn.init.ones_(parameter)
        chosen = replace(chosen, run=SimpleNamespace(gather=lambda one: gather_object(one)))
    mine = groups(stored(20 if shared else 0))[accelerator.process_index :: accelerator.num_processes]
    if config.select == "drop":
        mine = [group for group in mine if not uniform(group)]
    if needed := (*chosen.needs, *resolve_loss(config).attributes["needs"]):
        played = [episode for group in mine for episode in group]
        for turn in (turn for episode in played for turn in episode.turns):
            turn.extra["entropy_mean"] = 1.0
        scores = [name for name in needed if name != "entropy_mean"]
        score(played, scores, lambda rows: scored(learner, rows, config))
    metrics = reinforce(learner, mine, chosen, config, 0)
    head = [] if learner.critic is None else [p.detach().double().flatten().round() for p in learner.critic.parameters()]
    weights = torch.cat([p.detach().flatten().double() for p in (learner.masters or model).parameters()] + head)
    untouched = [p.detach().flatten() for p in tiny_model().to(model.dtype).double().parameters()]
    return metrics, weights, torch.cat(untouched + [torch.ones_like(one) for one in head])


def mismatches():
    """Return the mismatch over all processes of 1,499 tokens of the first and three of each other, one of them unknown."""
    accelerator = Accelerator(cpu=True)
    mine = [0.0] * 1499 if accelerator.process_index == 0 else [1.0, -3.0, float("nan")]
    measured = UpdateMetrics(np.array(mine, dtype=np.float32), compared=True, sums=[{}])
    metrics = measured.reduce(lambda items: gather_object(items) if accelerator.num_processes > 1 else items)
    return {name: value for name, value in metrics.items() if name.startswith("mismatch")}


if __name__ == "__main__":
    out, *cases = sys.argv[1:]
    found, gaps = {case: update(case) for case in cases or CASES}, mismatches()
    if Accelerator(cpu=True).is_main_process:
        torch.save({case: weights for case, (_, weights, _) in found.items()}, f"{out}.pt")
        Path(out).write_text(json.dumps({"apart": gaps, **{case: metrics for case, (metrics, _, _) in found.items()}}))
