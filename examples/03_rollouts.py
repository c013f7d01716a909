"""Many episodes at once, with and without a model, kept in a file. Run: python examples/03_rollouts.py"""

import re
import tempfile
from pathlib import Path

import agentgym
from agentgym.engines.scripted import ScriptedEngine


def guess(prompt: str, turn: int) -> str:
    """Stand in for a model: read one's own prompt, and halve the interval."""
    low, high = 1, int(re.findall(r"from 1 to (\d+)", prompt)[-1])
    said = re.findall(r"(\d+)\D*?(Higher|Lower)\.", prompt)
    for number, answer in said:
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
        file = Path(folder) / "episodes.jsonl"
        for name, agent in agents.items():
            config = agentgym.RolloutConfig(concurrency=8)  # episodes in flight
            episodes = agentgym.collect(
                agent, "rlvr/GuessNumber-v0", split="test", tasks=10, attempts=3, out=file, config=config
            )
            print(f"{name}: success {agentgym.success(episodes)}")
        episodes = agentgym.read_episodes(file)  # each was written when it ended, so a crash loses none
    print(f"{len(episodes)} episodes in the file")

    turns = next(e.turns for e in reversed(episodes) if len(e.turns) > 2)
    held = turns[0].prompt_ids + turns[0].output_ids
    kept = turns[1].prompt_ids[: len(held)] == held
    print(f"the second prompt begins with the tokens of the first turn, as sampled: {kept}")


if __name__ == "__main__":
    main()
