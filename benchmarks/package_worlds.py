"""Steps per second of the worlds over packages, beside the package's own loop playing the same actions.

python benchmarks/package_worlds.py [babyai textworld scienceworld] [--episodes 20]
"""

import argparse
import time
from collections.abc import Callable

import agentgym


def timed(play: Callable[[], int]) -> float:
    started = time.perf_counter()
    steps = play()
    return steps / (time.perf_counter() - started)


def solutions(env: agentgym.TextEnv, episodes: int) -> list[tuple[object, list[str]]]:
    found = []
    for number in range(episodes):
        task = env.numbered(number)
        env.reset(seed=0, options={"task": task, "horizon": 5000})
        found.append((task, list(env.oracle())))
    return found


def ours(env: agentgym.TextEnv, plays: list[tuple[object, list[str]]]) -> float:
    def play() -> int:
        for task, commands in plays:
            env.reset(seed=0, options={"task": task, "horizon": 5000})
            for command in commands:
                env.step(command)
        return sum(len(commands) for _, commands in plays)

    return timed(play)


def babyai(episodes: int) -> tuple[float, float]:
    import gymnasium

    from agentgym.envs.babyai import levels, rules

    env = agentgym.make("rlvr/BabyAI-v0", difficulty=3)
    plays = solutions(env, episodes)
    made = {task.data["level"]: gymnasium.make(levels.known()[task.data["level"]]).unwrapped for task, _ in plays}

    def package() -> int:
        for task, commands in plays:
            level = made[task.data["level"]]
            level.reset(seed=task.data["seed"])
            for command in commands:
                level.step(rules.COMMANDS.index(command))
        return sum(len(commands) for _, commands in plays)

    return ours(env, plays), timed(package)


def textworld(episodes: int) -> tuple[float, float]:
    import textworld as package
    from textworld.core import EnvInfos

    from agentgym.envs.textworld import games

    env = agentgym.make("rlvr/TextWorld-v0", difficulty=2)
    plays = solutions(env, episodes)

    def play() -> int:
        for task, commands in plays:
            path = games.folder() / f"{task.data['content']}.z8"
            game = package.start(str(path), EnvInfos(admissible_commands=True, score=True, max_score=True))
            game.reset()
            for command in commands:
                game.step(command)
            game.close()
        return sum(len(commands) for _, commands in plays)

    return ours(env, plays), timed(play)


def scienceworld(episodes: int) -> tuple[float, float]:
    from scienceworld import ScienceWorldEnv

    env = agentgym.make("rlvr/ScienceWorld-v0", tasks_of=("find-animal", "boil"))
    plays = solutions(env, episodes)
    simulator = ScienceWorldEnv("", envStepLimit=5000)

    def play() -> int:
        for task, commands in plays:
            simulator.load(task.data["name"], task.data["variation"], "")
            simulator.reset()
            for command in commands:
                simulator.step(command)
        return sum(len(commands) for _, commands in plays)

    return ours(env, plays), timed(play)


WORLDS = {"babyai": babyai, "textworld": textworld, "scienceworld": scienceworld}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("worlds", nargs="*", choices=[*WORLDS, []], default=list(WORLDS))
    parser.add_argument("--episodes", type=int, default=20)
    chosen = parser.parse_args()
    for name in chosen.worlds or WORLDS:
        world, package = WORLDS[name](chosen.episodes)
        print(f"{name}: {world:.0f} steps/s, the package {package:.0f} (resets included), ratio {world / package:.2f}")


if __name__ == "__main__":
    main()
