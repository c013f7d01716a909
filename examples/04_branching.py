"""What is it worth to be here? Snapshot, branch, play out. Run: python examples/04_branching.py"""

import asyncio

import agentgym


def walk(env: agentgym.TextEnv, seed: int, steps: int) -> None:
    """Follow the expert for some steps."""
    env.reset(seed=seed)
    for _ in range(steps):
        env.step(next(env.expert()))


def value(env: agentgym.TextEnv, state: agentgym.Snapshot, action: str, branches: int) -> float:
    """Return the mean reward of taking `action` in `state` and following the expert from there."""
    total = 0.0
    for k in range(branches):
        env.restore(state, seed=k)  # the same place, and chance drawn afresh
        _, reward, terminated, truncated, _ = env.step(action)
        if not (terminated or truncated):
            reward = agentgym.play_out(env, agentgym.ExpertAgent(), seed=k).reward
        total += reward
    return total / branches


def main() -> None:
    env = agentgym.make("rlvr/FrozenLake-v0", slip=0.2, horizon=14)
    walk(env, seed=9, steps=5)
    print(env.observation, "\n")
    state, key = env.snapshot(), env.state_key()
    careful = next(env.expert())
    values = {action: value(env, state, action, branches=100) for action in env.admissible() or []}
    for action, mean in values.items():
        print(f"{action:<6} {mean:.2f}{'   what the expert would do' if action == careful else ''}")
    best = max(values, key=values.__getitem__)
    print(f"with {state.horizon - state.turn} turns left the best is {best}: {values[best]:.2f}")
    print(f"back at the same place: {env.restore(state).state_key() == key}")

    # With an agent that remembers, a branch point is the pair of snapshot and conversation.
    talk = agentgym.RandomAgent().begin(env.task, env.tools)
    turn = asyncio.run(talk.fork().take(env.observation, env.info(), env=env, seed=0, session="branch"))
    print(f"a fork of the conversation answers on its own: {turn.action in values}")


if __name__ == "__main__":
    main()
