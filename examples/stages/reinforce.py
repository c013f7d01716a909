"""A learner from nothing, REINFORCE: `--learner examples.stages.reinforce:Reinforce --sft-episodes 0`."""

import numpy as np
import torch

from agentgym import learner, trainers
from agentgym.engines.hf.engine import HFEngine


@learner("reinforce")
class Reinforce(trainers.Learner):
    """One step of AdamW for each mini-batch, on the weighted sum of advantage times log-probability."""

    def __init__(self, accelerator, config, folder, *, state, lr: float = 3e-3):
        self.model, self.tokenizer = trainers.load_policy(folder)
        self.engine, self.adamw = HFEngine(self.model, self.tokenizer), torch.optim.AdamW(self.model.parameters(), lr)

    def update(self, minibatch, loss, step):
        total = torch.zeros(())
        for row, weights in zip(minibatch.rows, minibatch.weights, strict=True):
            total = total - self._scored(row)[0] @ torch.as_tensor((row.advantages * weights)[1:])
        if total.requires_grad:
            total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adamw.step()
        self.adamw.zero_grad()
        return trainers.UpdateResult({"loss": torch.stack([total.detach(), torch.ones(())])}, grad_norm=float(norm))

    def score(self, rows):
        """Only for a credit that needs `logprobs` or `entropy`."""
        found = {"logprobs": [], "entropy": []}
        with torch.no_grad():
            for row in rows:
                for name, values in zip(found, self._scored(row), strict=True):
                    found[name].append(np.append(np.float32("nan"), values.numpy()))
        return found

    def _scored(self, row):
        """Return the log-probability of each token after the first, and the entropy that it was drawn from."""
        scores = self.model(torch.as_tensor(row.ids[None, :-1]).long()).logits[0].log_softmax(-1)
        chosen = scores.gather(-1, torch.as_tensor(row.ids[1:, None]).long())[:, 0]
        return chosen, -(scores.exp() * scores).sum(-1)

    async def publish(self, version):
        await self.engine.load_weights(self.model.named_parameters(), version)

    def save(self, folder):
        trainers.save_policy(self.model, self.tokenizer, folder)

    def state_dict(self):
        """What a resumed run needs beside the weights."""
        return self.adamw.state_dict()

    def load_state_dict(self, state):
        self.adamw.load_state_dict(state)
