"""A learner from nothing, REINFORCE: `--learner examples.stages.reinforce:Reinforce --sft-episodes 0`."""

import torch

from agentgym import learner, trainers
from agentgym.engines.hf.engine import HFEngine


@learner("reinforce")
class Reinforce(trainers.Learner):
    """One step of AdamW for each group, on the sum of advantage times log-probability."""

    def __init__(self, accelerator, config, folder, *, state, lr: float = 1e-3):
        self.model, self.tokenizer = trainers.load_policy(folder)
        self.engine, self.adamw = HFEngine(self.model, self.tokenizer), torch.optim.AdamW(self.model.parameters(), lr)

    def update(self, groups, credit, loss, step):
        for group, advantages in zip(groups, credit(groups, step=step), strict=True):
            for row in trainers.build(group, advantages):
                logits = self.model(torch.as_tensor(row.ids[None, :-1]).long()).logits[0]
                said = logits.log_softmax(-1).gather(-1, torch.as_tensor(row.ids[1:, None]).long())[:, 0]
                (-said @ torch.as_tensor(row.advantages[1:])).backward()
            self.adamw.step()
            self.adamw.zero_grad()
        return {}

    async def publish(self, version):
        await self.engine.load_weights(self.model.named_parameters(), version)

    def save(self, folder):
        trainers.save_policy(self.model, self.tokenizer, folder)
