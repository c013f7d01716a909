"""An environment with tools, complete: find the heavy coin with a pair of scales. Run: python examples/02_your_own_env.py"""

import json
from collections.abc import Iterator

import agentgym


class HeavyCoin(agentgym.TextEnv):
    """Find the one heavy coin by comparing coins on a pair of scales."""

    horizon = 8

    def begin(self, task: agentgym.Task) -> str:
        self.coins, self.heavy = task.data["coins"], task.data["heavy"]
        self.suspects = set(range(1, self.coins + 1))  # what the agent may still believe
        return f"One of the coins 1 to {self.coins} is heavier than the others. Find it."

    @agentgym.tool  # name, docstring and annotations become the schema the model sees
    def weigh(self, left: str, right: str) -> str | agentgym.Outcome:
        """Put coins on the two pans of the scales, for example left "1 2" and right "3 4"."""
        words = left.split(), right.split()
        if not all(word.isascii() and word.isdecimal() and len(word) < 6 for word in words[0] + words[1]):
            return self.invalid('coins are numbers with spaces between them, for example "1 2"')
        pans = [{int(word) for word in side} for side in words]
        if len(pans[0]) != len(pans[1]) or not pans[0] or pans[0] & pans[1]:
            return self.invalid("put equally many coins on both pans, each coin on one of them")
        if not pans[0] | pans[1] <= set(range(1, self.coins + 1)):
            return self.invalid(f"there are the coins 1 to {self.coins} only")
        for pan, answer in zip(pans, ("The left pan sinks.", "The right pan sinks."), strict=True):
            if self.heavy in pan:
                self.suspects &= pan
                return answer
        self.suspects -= pans[0] | pans[1]
        return "The pans balance."

    @agentgym.tool
    def answer(self, coin: int) -> agentgym.Outcome:
        """Say which coin is the heavy one; this ends the episode."""
        return self.win("That is the one.") if coin == self.heavy else self.lose("That one is not heavier than the rest.")

    def state(self) -> tuple[int, int, list[int]]:
        return self.coins, self.heavy, sorted(self.suspects)

    def oracle(self) -> Iterator[str]:
        yield f"answer[{self.heavy}]"

    def expert(self) -> Iterator[str]:  # called again after every turn
        left = sorted(self.suspects)
        if len(left) == 1:
            yield f"answer[{left[0]}]"
        third = (len(left) + 1) // 3
        pans = {"left": " ".join(map(str, left[:third])), "right": " ".join(map(str, left[third : 2 * third]))}
        yield json.dumps({"name": "weigh", "arguments": pans})

    @staticmethod
    def generate(rng, difficulty: int) -> agentgym.Task:
        coins = int(rng.integers(20, 80)) * 3**difficulty
        return agentgym.Task(instruction="heavy coin", data={"coins": coins, "heavy": int(rng.integers(1, coins + 1))})


agentgym.register("me/HeavyCoin-v0", HeavyCoin)


def main() -> None:
    env = agentgym.make("me/HeavyCoin-v0")
    won = 0
    for number in range(10):
        env.reset(options={"task": number})
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(next(env.expert()))
            ended = terminated or truncated
        won += info["success"]
    print(f"expert: success {won} of 10")

    print("\na wrong action is an observation, never an exception:")
    env.reset(seed=7)
    text, reward, _, _, info = env.step("answer[the third]")
    print(f"{text}   reward {reward}  valid {info['valid']}")


if __name__ == "__main__":
    main()
