"""Steps per second of the environments over packages, beside the package's own loop playing the same actions.

python benchmarks/package_envs.py [babyai textworld scienceworld] [--episodes 20] [--rounds 3]

Each round plays ours and then the package's, resets included; the ratio is the middle one of the rounds. BabyAI and
TextWorld play in this process and are timed by its CPU, ScienceWorld's Java machines by the clock.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import agentgym

Timer = Callable[[], float]
"""Plays everything and returns steps per second."""
Plays = list[tuple[agentgym.Task, list[str]]]


def timed(play: Callable[[], int], clock: Callable[[], float]) -> float:
    started = clock()
    steps = play()
    return steps / (clock() - started)


def solutions(env: agentgym.TextEnv, episodes: int) -> Plays:
    found: Plays = []
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


def ours(env: agentgym.TextEnv, plays: Plays, clock: Callable[[], float]) -> Timer:
    def play() -> int:
        for task, commands in plays:
            env.reset(seed=0, options={"task": task, "horizon": 5000})
            for command in commands:
                env.step(command)
        return sum(len(commands) for _, commands in plays)

    return lambda: timed(play, clock)


def babyai(episodes: int) -> tuple[Timer, Timer]:
    import gymnasium

    from agentgym.envs.babyai import levels, rules

    env = agentgym.make("rlvr/BabyAI-v0", difficulty=3)
    plays = solutions(env, episodes)
    names = {task.data["level"] for task, _ in plays}
    made = {name: gymnasium.make(levels.known()[name], disable_env_checker=True).unwrapped for name in names}

    def package() -> int:
        for task, commands in plays:
            level = made[task.data["level"]]
            level.reset(seed=task.data["seed"])
            for command in commands:
                level.step(rules.COMMANDS.index(command))
        return sum(len(commands) for _, commands in plays)

    return ours(env, plays, time.process_time), lambda: timed(package, time.process_time)


def textworld(episodes: int) -> tuple[Timer, Timer]:
    from agentgym.envs.textworld import games

    env = agentgym.make("rlvr/TextWorld-v0", difficulty=2)
    plays = solutions(env, episodes)
    stories = [(str(games.folder() / f"{task.data['content']}.z8"), commands) for task, commands in plays]
    pool = ProcessPoolExecutor(1, get_context("spawn"))  # a process that this environment has changed nothing in
    pool.submit(textworld_alone, stories).result()  # imports and memories are not counted: ours are warm, too
    return ours(env, plays, time.process_time), lambda: pool.submit(textworld_alone, stories).result()


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

    return timed(play, time.process_time)


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
        """Ask the package's server for what our environment asks, and not for the list of all valid actions."""
        server: Any = simulator.server
        for task, commands in plays:
            simulator.load(task.data["name"], task.data["variation"], "")
            for command in commands:
                server.step(command)
                server.getScore()
                server.getCompleted()
        return sum(len(commands) for _, commands in plays)

    rate = timed(bare, time.perf_counter)
    print(f"scienceworld: without the list of valid actions the package makes {rate:.0f} steps/s")
    return ours(env, plays, time.perf_counter), lambda: timed(play, time.perf_counter)


ENVS = {"babyai": babyai, "textworld": textworld, "scienceworld": scienceworld}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("envs", nargs="*", choices=[*ENVS, []], default=[])  # argparse looks for the default, too
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    for name in chosen.envs or ENVS:
        env, package = ENVS[name](chosen.episodes)
        pairs = [(env(), package()) for _ in range(chosen.rounds)]
        ratio = statistics.median(one / other for one, other in pairs)
        one, other = (statistics.median(rates) for rates in zip(*pairs, strict=True))
        print(f"{name}: {one:.0f} steps/s, the package {other:.0f} (resets included), ratio {ratio:.2f} of {chosen.rounds}")


if __name__ == "__main__":
    main()
