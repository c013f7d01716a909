"""The local learner with fixed embeddings: `--learner examples.stages.learner:Frozen`."""

import agentgym
from agentgym.trainers import LocalLearner


@agentgym.learner("frozen_embeddings")
class Frozen(LocalLearner):
    """Trains all but the input embeddings."""

    def freeze(self):
        self.model.get_input_embeddings().requires_grad_(False)
