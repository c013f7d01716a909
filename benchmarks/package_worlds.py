"""Steps per second of the worlds over packages, beside the package's own loop playing the same actions.

python benchmarks/package_worlds.py [babyai textworld scienceworld] [--episodes 20]
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import agentgym


def timed(play: Callable[[], int], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    steps = play()
    return steps / (clock() - started)


def solutions(env: agentgym.TextEnv, episodes: int) -> list[tuple[object, list[str]]]:
    found = []
    for number in range(episodes):
        task = env.numbered(number)
        env.reset(seed=0, options={"task": task, "horizon": 5000})
        found.append((task, list(env.oracle())))
    return found


def ours(
    env: agentgym.TextEnv, plays: list[tuple[object, list[str]]], clock: Callable[[], float] = time.perf_counter
) -> float:
    def play() -> int:
        for task, commands in plays:
            env.reset(seed=0, options={"task": task, "horizon": 5000})
            for command in commands:
                env.step(command)
        return sum(len(commands) for _, commands in plays)

    return timed(play, clock)


def babyai(episodes: int) -> tuple[float, float]:
    from agentgym.envs.babyai import levels, rules

    env = agentgym.make("rlvr/BabyAI-v0", difficulty=3)
    plays = solutions(env, episodes)

    def package() -> int:
        for task, commands in plays:
            level = levels.layout(task.data["level"], task.data["seed"])
            for command in commands:
                level.step(rules.COMMANDS.index(command))
        return sum(len(commands) for _, commands in plays)

    return ours(env, plays), timed(package)


def textworld(episodes: int) -> tuple[float, float]:
    from agentgym.envs.textworld import games

    env = agentgym.make("rlvr/TextWorld-v0", difficulty=2)
    plays = solutions(env, episodes)
    stories = [(str(games.folder() / f"{task.data['content']}.z8"), commands) for task, commands in plays]
    rates = list[tuple[float, float]]()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # a process that this world has changed nothing in
        for _ in range(3):
            rates.append((ours(env, plays, time.process_time), pool.submit(textworld_alone, stories).result()))
    print(
        "textworld, steps per second of CPU, pair by pair:",
        ", ".join(f"{world:.1f} : {package:.1f}" for world, package in rates),
    )
    world, package = zip(*rates, strict=True)
    return sorted(world)[1], sorted(package)[1]


def textworld_alone(stories: list[tuple[str, list[str]]]) -> float:
    import textworld as package
    from textworld.core import EnvInfos

    def play() -> int:
        for path, commands in stories:
            game = package.start(path, EnvInfos(admissible_commands=True, score=True, max_score=True))
            game.reset()
            for command in commands:
                game.step(command)
            game.close()
        return sum(len(commands) for _, commands in stories)

    play()  # imports and memories of the first round are not counted: ours are warm, too
    return timed(play, time.process_time)


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
