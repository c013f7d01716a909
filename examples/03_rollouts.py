"""Many episodes at once, with and without a model, kept in files. Run: python examples/03_rollouts.py"""

import re
import tempfile
from pathlib import Path

import agentgym
from agentgym.engines.scripted import ScriptedEngine


def guess(prompt: str, turn: int) -> str:
    """Stand in for a model: read the prompt, and halve the interval."""
    low, high = 1, int(re.findall(r"from 1 to (\d+)", prompt)[-1])
    for number, answer in re.findall(r"(\d+)\D*?(Higher|Lower)\.", prompt):
        low, high = (int(number) + 1, high) if answer == "Higher" else (low, int(number) - 1)
    return str((low + high) // 2)


def main() -> None:
    engine = ScriptedEngine(guess)  # a model: agentgym.engine("hf:PATH")
    agents = {
        "random": agentgym.RandomAgent(),
        "expert": agentgym.ExpertAgent(),
        "model": agentgym.ChatAgent(engine, prompt="bare"),
    }
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.jsonl" for name in agents}  # one each: an attempt counts once in a file
        for name, agent in agents.items():
            config = agentgym.RolloutConfig(concurrency=8)  # episodes in flight
            episodes = agentgym.collect(
                agent, "rlvr/GuessNumber-v0", split="test", tasks=10, attempts=3, out=files[name], config=config
            )
            print(f"{name}: success {agentgym.success(episodes)}")
        stored = {name: agentgym.read_episodes(file) for name, file in files.items()}  # written as they ended
    print(f"{sum(map(len, stored.values()))} episodes in the files")

    turns = next(e.turns for e in stored["model"] if len(e.turns) > 2)
    sampled = turns[0].prompt_ids + turns[0].output_ids
    extends = turns[1].prompt_ids[: len(sampled)] == sampled
    print(f"the second prompt begins with the tokens of the first turn, as sampled: {extends}")


if __name__ == "__main__":
    main()
