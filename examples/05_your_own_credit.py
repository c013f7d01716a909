"""Your own credit function. Run: python examples/05_your_own_credit.py"""

import numpy as np

import agentgym
from agentgym.trainers.credit.interface import resolve


@agentgym.credit("last_turn")
def last_turn(group: agentgym.Group, *, scale: float = 1.0) -> list[np.ndarray]:
    """Only the last turn of an episode is credited, with reward minus the group's mean."""
    mean = np.mean([episode.reward for episode in group])
    return [np.r_[np.zeros(len(e.turns) - 1), scale * (e.reward - mean)] for e in group]


def main() -> None:
    agent = agentgym.ExpertAgent(agentgym.Noise(random=0.5))  # good half of the time, so that groups are mixed
    episodes = agentgym.collect(agent, "rlvr/FrozenLake-v0", tasks=4, attempts=4, seed=1, horizon=12)
    group = next(g for g in agentgym.groups(episodes) if len({e.reward for e in g}) > 1)
    print("rewards of the group:", [e.reward for e in group])
    for name, options in (("last_turn", {"scale": 0.5}), ("grpo", {}), ("gigpo", {"anchor": "state"})):
        (advantages,) = resolve(name, **options)([group])
        print(f"\n{name} {options}")
        for episode, values in zip(group, advantages, strict=True):
            print(f"  {'won ' if episode.success else 'lost'}", np.round(values, 2).tolist())
    (advantages,) = resolve("last_turn")([group])
    print(f"\nlast_turn sums to {sum(a.sum() for a in advantages):.6f} over the group")


if __name__ == "__main__":
    main()
