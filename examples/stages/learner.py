"""A learner of one's own: the local one, whose embeddings stay as they are. `--learner examples.stages.learner:Frozen`."""

import agentgym
from agentgym.trainers import LocalLearner


@agentgym.learner("frozen_embeddings")
class Frozen(LocalLearner):
    """Trains all but the input embeddings."""

    def begin(self, phase, folder):
        self.model.get_input_embeddings().requires_grad_(False)
        super().begin(phase, folder)
