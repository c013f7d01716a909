"""An agent that knows nothing of agentgym, trained by its base URL. Run: python examples/08_train_any_agent.py

The agent is `Agent`: any client of the OpenAI API would do, mini-swe-agent and whatever is built on litellm or openai too.
"""

import json
import tempfile
import urllib.request
from pathlib import Path

import agentgym
from agentgym.trainers import TrainConfig, train

COLOURS = ("red", "green", "blue", "white")


class Repeat(agentgym.TextEnv):
    """Repeat two colours."""

    horizon = 2

    def begin(self, task):
        self.left = list(task.data["colours"])
        return f"Say {self.left[0]}."

    def act(self, action):
        if action.strip() != self.left.pop(0):
            return self.lose("No.")
        return f"Say {self.left[0]}." if self.left else self.win("Yes.")

    def admissible(self):
        return list(COLOURS)

    def state(self):
        return self.left

    def oracle(self):
        yield self.left[0]

    expert = oracle

    @staticmethod
    def generate(rng, difficulty):
        colours = [COLOURS[i] for i in rng.integers(len(COLOURS), size=2 + difficulty)]
        return agentgym.Task(instruction="repeat", data={"colours": colours, "noise": int(rng.integers(10**6))})


class Agent:
    """An agent of others: messages, a base URL and a key."""

    def __init__(self, base_url, api_key, model):
        self.url, self.model, self.messages = f"{base_url}/chat/completions", model, []
        self.headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}

    def answer(self, text):
        self.messages.append({"role": "user", "content": text})
        body = json.dumps({"model": self.model, "messages": self.messages, "max_tokens": 4}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body, self.headers)) as reply:
            self.messages.append(json.load(reply)["choices"][0]["message"])
        return self.messages[-1]["content"]


def play(task, access):
    """Let the agent play one attempt at a task, wherever its environment is, and say what that was worth."""
    agent = Agent(access.base_url, access.api_key, access.model)
    env = Repeat()
    text, _ = env.reset(options={"task": task})
    while True:
        text, reward, terminated, truncated, _ = env.step(agent.answer(text))
        if terminated or truncated:
            return reward


def main():
    agentgym.register("me/Repeat-v0", Repeat)
    with tempfile.TemporaryDirectory() as folder:
        common = {"env": "me/Repeat-v0", "threads": 1, "turn_tokens": 4, "test_tasks": 64, "eval_every": 0}
        # A policy that says colours, though any: a stand-in for the pretrained model that one would begin with.
        policy = f"{folder}/policy"
        train(TrainConfig(**common, out=policy, sft_episodes=160, sft_noise=1.0, sft_invalid=0.0, sft_forget=0.0, steps=0))
        begun = str(max(Path(policy, "checkpoints").iterdir()))
        shape = {"steps": 24, "tasks_per_step": 8, "group_size": 8, "minibatches": 1, "lr": 3e-3, "muon": True}
        config = TrainConfig(
            **common, **shape, out=f"{folder}/run", model=begun, agent="08_train_any_agent:play", credit="gigpo"
        )
        summary = train(config)
        rows = [json.loads(line) for line in Path(config.out, "metrics.jsonl").read_text().splitlines()]
        print("success in training:", *(f"{row['success_train']:.2f}" for row in rows if row.get("phase") == "rl"))
        print(f"engine against trainer: KL {max(row.get('mismatch_kl', 0.0) for row in rows):.1e}")
        print(f"held out: {summary['success_before']:.2f} before, {summary['success_after']:.2f} after")


if __name__ == "__main__":
    main()
