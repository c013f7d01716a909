"""A reward and a loss: `agentgym train examples/stages/mix.toml` uses both."""

import agentgym


@agentgym.reward("brevity")
async def brevity(episodes, *, weight: float = 0.05):
    """Subtract up to `weight` from long winning episodes."""
    return [{"brevity": -weight * len(e.turns) / e.horizon} if e.success else {} for e in episodes]


@agentgym.loss("capped")
def capped(tokens, *, cap: float = 2.0):
    """Truncated importance sampling: the gradient of every token, weighted by its ratio up to a cap."""
    ratio = (tokens.logprobs - tokens.behaviour).exp()
    return -(ratio.clamp(max=cap).detach() * tokens.advantages * tokens.logprobs)
