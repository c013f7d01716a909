"""Flow-GRPO: an agent of four modules whose planner alone is trained. Run: python examples/11_four_modules.py

Planner, executor, verifier and generator share a memory (AgentFlow, arXiv 2510.05592). Each call of the planner is a prompt
of its own, so a row of its own, and the outcome of the attempt is the credit of all of them: `credit="grpo"`. The other
three are frozen. Here they are functions; with FROZEN_URL=http://HOST:PORT/v1 a served model plays them.
"""

import json
import os
import tempfile
import urllib.request
from pathlib import Path

import agentgym
from agentgym.trainers import TrainConfig, train

FACTS = ("price", "weight", "length", "count", "stock")
QUESTIONS = {
    "cost": ("price", "count"),
    "load": ("weight", "count"),
    "span": ("length", "count"),
    "value": ("price", "stock"),
}
"""Each question asks for the product of two facts."""


class Catalog(agentgym.TextEnv):
    """Look up two facts of a product and multiply them."""

    horizon = 3

    def begin(self, task):
        self.known = []
        return self.view()

    def view(self):
        return f"find {self.task.data['question']} known {' '.join(self.known) or 'nothing'}"

    def act(self, action):
        name, _, argument = action.partition(" ")
        if name == "answer":
            first, second = (self.task.data["facts"][fact] for fact in QUESTIONS[self.task.data["question"]])
            return self.win("Yes.") if argument == str(first * second) else self.lose("No.")
        if name not in FACTS:
            return self.invalid(f"There is no fact {name!r}.")
        self.known.append(name)
        return f"{name} = {self.task.data['facts'][name]}"

    def state(self):
        return self.known

    def oracle(self):
        needed = QUESTIONS[self.task.data["question"]]
        for fact in needed:
            if fact not in self.known:
                yield fact
        first, second = (self.task.data["facts"][fact] for fact in needed)
        yield f"answer {first * second}"

    @staticmethod
    def generate(rng, difficulty):
        facts = dict(zip(FACTS, (int(n) for n in rng.integers(2, 10, size=len(FACTS))), strict=True))
        question = sorted(QUESTIONS)[rng.integers(len(QUESTIONS))]
        return agentgym.Task(instruction=question, data={"question": question, "facts": facts})


class Words(Catalog):
    """The planner's words, to make a policy from nothing: it names facts and sees which it named."""

    def act(self, action):
        if action not in FACTS:
            return self.invalid(self.view())
        self.known.append(action)
        return self.win("Yes.") if len(self.known) == 2 else self.view()

    def admissible(self):
        return list(FACTS)

    def oracle(self):
        yield FACTS[len(self.known)]

    expert = oracle


def complete(url, key, model, text):
    """Return a model's reply to one prompt."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    ) as reply:
        return json.load(reply)["choices"][0]["message"]["content"].strip()


def frozen(instruction, text, stand_in):
    """Return what a module that is not trained says: a served model, or its stand-in."""
    url = os.environ.get("FROZEN_URL")
    return complete(url, os.environ.get("FROZEN_KEY", ""), "frozen", f"{instruction}\n{text}") if url else stand_in(text)


def executor(plan):
    """Turn the planner's step into a command of the environment."""
    return frozen("Write the command for this step, one fact's name:", plan, lambda text: text.split()[0] if text else "")


def verifier(memory):
    """Judge whether the memory suffices for an answer."""
    stand_in = lambda text: "stop" if text.count("=") >= 2 else "continue"  # noqa: E731
    return frozen("Do these facts suffice? Reply stop or continue:", "\n".join(memory), stand_in)


def generator(memory):
    """Write the answer from the memory."""

    def product(text):
        first, second = (int(line.rpartition("=")[2]) for line in text.splitlines()[:2])
        return str(first * second)

    return frozen("Multiply the two numbers:", "\n".join(memory), product)


def play(task, access):
    """Play one attempt: plan, execute, verify until the verifier stops, then answer; return its reward."""
    env, memory, facts = Catalog(), [], []
    env.reset(options={"task": task})
    while True:
        known = " ".join(facts) or "nothing"
        plan = complete(access.base_url, access.api_key, access.model, f"find {task.data['question']} known {known}")
        command = executor(plan)
        text, reward, terminated, truncated, info = env.step(command)
        if terminated or truncated:
            return reward
        if info["valid"]:
            memory.append(text)
            facts.append(command)
        if verifier(memory) == "stop":
            return env.step(f"answer {generator(memory)}")[1]


def main():
    agentgym.register("me/Catalog-v0", Catalog)
    agentgym.register("me/Words-v0", Words)
    with tempfile.TemporaryDirectory() as folder:
        common = {"threads": 1, "turn_tokens": 4, "test_tasks": 64, "eval_every": 0}
        policy = f"{folder}/policy"  # stands in for the pretrained model that one would begin with
        begin = {"sft_episodes": 160, "sft_noise": 1.0, "sft_invalid": 0.0, "sft_forget": 0.0, "steps": 0}
        train(TrainConfig(env="me/Words-v0", **common, **begin, out=policy))
        begun = str(max(Path(policy, "checkpoints").iterdir()))
        shape = {"steps": 24, "tasks_per_step": 8, "group_size": 8, "minibatches": 1, "lr": 3e-3, "muon": True}
        config = TrainConfig(
            env="me/Catalog-v0",
            **common,
            **shape,
            out=f"{folder}/run",
            model=begun,
            agent="11_four_modules:play",
            credit="grpo",
        )
        summary = train(config)
        rows = [json.loads(line) for line in Path(config.out, "metrics.jsonl").read_text().splitlines()]
        print("success in training:", *(f"{row['success_train']:.2f}" for row in rows if row.get("phase") == "rl"))
        print(f"held out: {summary['success_before']:.2f} before, {summary['success_after']:.2f} after")


if __name__ == "__main__":
    main()
