"""A learner from nothing, REINFORCE: `--learner examples.stages.reinforce:Reinforce --sft-episodes 0`."""

import torch

from agentgym import learner, trainers
from agentgym.engines.hf.engine import HFEngine


@learner("reinforce")
class Reinforce(trainers.Learner):
    """One step of AdamW for each mini-batch, on the weighted sum of advantage times log-probability."""

    def __init__(self, accelerator, config, folder, *, state, lr: float = 1e-3):
        self.model, self.tokenizer = trainers.load_policy(folder)
        self.engine, self.adamw = HFEngine(self.model, self.tokenizer), torch.optim.AdamW(self.model.parameters(), lr)

    def update(self, minibatch, loss, step):
        total = torch.zeros(())
        for row, weights in zip(minibatch.rows, minibatch.weights, strict=True):
            logits = self.model(torch.as_tensor(row.ids[None, :-1]).long()).logits[0]
            said = logits.log_softmax(-1).gather(-1, torch.as_tensor(row.ids[1:, None]).long())[:, 0]
            total = total - said @ torch.as_tensor((row.advantages * weights)[1:])
        if total.requires_grad:
            total.backward()
        self.adamw.step()
        self.adamw.zero_grad()
        return trainers.Updated({"loss": torch.stack([total.detach(), torch.ones(())])})

    async def publish(self, version):
        await self.engine.load_weights(self.model.named_parameters(), version)

    def save(self, folder):
        trainers.save_policy(self.model, self.tokenizer, folder)
