"""How fast the shop is: python benchmarks/shop.py [--difficulty 0] [--episodes 300]"""

import argparse
import time

import agentgym


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--difficulty", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=300)
    options = parser.parse_args()
    started = time.process_time()
    env = agentgym.make("rlvr/Shop-v0", difficulty=options.difficulty)
    tasks = env.up_to(options.episodes)
    env.reset(options={"task": tasks[0]})
    env.step("search[red shoes]")  # the index is made at the first search
    print(f"loading, index and {len(tasks)} tasks: {time.process_time() - started:.2f} s of CPU")
    resets = steps = 0.0
    count = wins = 0
    for task in tasks:
        started = time.process_time()
        env.reset(seed=0, options={"task": task})
        resets += time.process_time() - started
        while env.success is None:
            action = next(env.expert())
            started = time.process_time()
            _, _, _, truncated, _ = env.step(action)
            steps += time.process_time() - started
            count += 1
            if truncated:
                break
        wins += bool(env.success)
    print(f"expert: {wins} of {len(tasks)} bought correctly, {count / len(tasks):.1f} turns")
    print(f"steps: {count / steps:,.0f} a second of CPU; reset: {1000 * resets / len(tasks):.3f} ms")


if __name__ == "__main__":
    main()
