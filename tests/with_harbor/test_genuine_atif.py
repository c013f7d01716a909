"""ATIF documents beside harbor 0.26.0's own models: ours pass them, and what they write becomes an episode."""

import json
import math
import random

from harbor.models.trajectories import Trajectory

from agentgym.core.actions import Tool
from agentgym.episodes.episode import Episode, Turn
from agentgym.evaluate.atif import from_atif, to_atif

TEXT = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = {"bash": Tool("bash", "Run a command.", TEXT)}


def drawn(seed: int) -> Episode:
    """Draw an episode: with and without tokens, notes, calls, thoughts, halves of characters and NaN."""
    rng = random.Random(seed)
    made = Episode("rlvr/Terminal-v0", f"train/0/{seed}", "g/0", seed, seed % 3, instruction="Do it.", split="train")
    made.success = rng.choice([True, False, None])
    made.reason = {True: "success", False: "failure", None: "crash"}[made.success]
    made.reward, made.final_observation = float(bool(made.success)), rng.choice(["", "done", "\udc80"])
    prompt: list[int] = []
    for number in range(rng.randrange(5)):
        prompt = [*prompt, number, number + 1]
        action = rng.choice(["bash[ls]", "bash[\ud800]", "nothing", ""])
        thought = rng.choice(["", "<think>\nhm\n</think>\n\n", "hm</think>"])
        turn = Turn(f"seen {number}", None, None, prompt, text=thought + action, action=action, reward=rng.random())
        if rng.random() < 0.7:
            turn.output_ids, turn.logprobs = [7, 8], [-0.5, rng.choice([-1.0, math.nan])]
        if rng.random() < 0.3:
            turn.notes = [Turn("", text="a note", prompt_ids=[1], output_ids=[2], logprobs=[-0.1])]
        turn.extra = {"advantage": rng.random()}
        made.add(turn)
        prompt = [*prompt, *turn.output_ids]
    return made


def test_documents_pass_harbors_models_and_come_back():
    for seed in range(200):
        held = drawn(seed)
        document = json.loads(json.dumps(to_atif(held, TOOLS)))
        genuine = Trajectory.model_validate(document)
        again = from_atif(genuine.to_json_dict(), "x")
        assert again.to_json() == held.to_json(), seed
