"""Steps per second of the worlds over packages, beside the package's own loop playing the same actions.

python benchmarks/package_worlds.py [babyai textworld scienceworld] [--episodes 20] [--rounds 3]

Each round plays ours and then the package's; the ratio is the middle one of the rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import agentgym

Timer = Callable[[], float]
"""Plays everything and returns steps per second."""


def timed(play: Callable[[], int]) -> float:
    started = time.perf_counter()
    steps = play()
    return steps / (time.perf_counter() - started)


def solutions(env: agentgym.TextEnv, episodes: int) -> list[tuple[object, list[str]]]:
    found = []
    for number in range(episodes):
        task = env.numbered(number)
        env.reset(seed=0, options={"task": task, "horizon": 5000})
        commands: list[str] = []
        for command in env.oracle():
            commands.append(command)
            if env.step(command)[2]:  # a solution may go on when the task is done
                break
        found.append((task, commands))
    return found


def ours(env: agentgym.TextEnv, plays: list[tuple[object, list[str]]]) -> float:
    def play() -> int:
        for task, commands in plays:
            env.reset(seed=0, options={"task": task, "horizon": 5000})
            for command in commands:
                env.step(command)
        return sum(len(commands) for _, commands in plays)

    return timed(play)


def babyai(episodes: int) -> tuple[Timer, Timer]:
    from agentgym.envs.babyai import levels, rules

    env = agentgym.make("rlvr/BabyAI-v0", difficulty=3)
    plays = solutions(env, episodes)

    def package() -> int:
        for task, commands in plays:
            level = levels.layout(task.data["level"], task.data["seed"])
            for command in commands:
                level.step(rules.COMMANDS.index(command))
        return sum(len(commands) for _, commands in plays)

    return lambda: ours(env, plays), lambda: timed(package)


def textworld(episodes: int) -> tuple[Timer, Timer]:
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

    return lambda: ours(env, plays), lambda: timed(play)


def scienceworld(episodes: int) -> tuple[Timer, Timer]:
    from scienceworld import ScienceWorldEnv

    names = ("find-animal", "find-plant", "lifespan-longest-lived", "power-component", "use-thermometer")
    env = agentgym.make("rlvr/ScienceWorld-v0", tasks_of=names)
    plays = solutions(env, episodes)
    simulator = ScienceWorldEnv("", envStepLimit=5000)

    def play() -> int:
        for task, commands in plays:
            simulator.load(task.data["name"], task.data["variation"], "")
            simulator.reset()
            for command in commands:
                simulator.step(command)
        return sum(len(commands) for _, commands in plays)

    def bare() -> int:
        """Ask the package's server for what our world asks, and not for the list of all valid actions."""
        for task, commands in plays:
            simulator.load(task.data["name"], task.data["variation"], "")
            for command in commands:
                simulator.server.step(command)
                simulator.server.getScore()
                simulator.server.getCompleted()
        return sum(len(commands) for _, commands in plays)

    print(f"scienceworld: without the list of valid actions the package makes {timed(bare):.0f} steps/s")
    return lambda: ours(env, plays), lambda: timed(play)


WORLDS = {"babyai": babyai, "textworld": textworld, "scienceworld": scienceworld}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("worlds", nargs="*", choices=[*WORLDS, []], default=list(WORLDS))
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    for name in chosen.worlds or WORLDS:
        world, package = WORLDS[name](chosen.episodes)
        pairs = [(world(), package()) for _ in range(chosen.rounds)]
        ratio = statistics.median(one / other for one, other in pairs)
        one, other = (statistics.median(rates) for rates in zip(*pairs, strict=True))
        print(f"{name}: {one:.0f} steps/s, the package {other:.0f} (resets included), ratio {ratio:.2f} of {chosen.rounds}")


if __name__ == "__main__":
    main()
