"""The bench of hints: its interpreter and its intervals by hand, and demonstrations that read like training's hints."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import hints as bench

import agentgym
from agentgym import Hint
from agentgym.agents.base import hinted
from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.model.policy import PolicySize, init_policy
from agentgym.trainers.selections.guidance import failure_report


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("n = 0\nn += 23 * 19\nn -= n // 5\nn -= 12\nprint(n)", "338"),
        ("n = 7\nn", "TypeError"),
        ("print(m)", "KeyError"),
        ("n = 1 // 0", "ZeroDivisionError"),
        ("n = 2 ** 9", "KeyError"),
        ("n = 09\nprint(n)", "SyntaxError"),
        ("import os", "TypeError"),
        ("", ""),
    ],
)
def test_only_programs_of_a_story_are_interpreted(code, output):
    assert bench.printed(code) == output


def test_the_expert_solves_every_story():
    env = agentgym.make("hints/Story-v0", difficulty=2).unwrapped
    for seed in range(20):
        env.reset(seed=seed)
        for action in env.expert():
            *_, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        assert info["success"]


def test_a_demonstration_has_the_prompt_that_training_has_with_a_hint(tmp_path):
    size = PolicySize(width=64, layers=1, heads=2, vocabulary=400)
    model = init_policy("hints/ShownStory-v0", tmp_path / "policy", size=size, episodes=20)
    engine = HFEngine(str(model))
    config = bench.warm_start(0, tmp_path)
    agent = config.spec.make(engine, Sampling(), engine.tokenizer)
    reader, plain = (agentgym.make(f"hints/{name}-v0", difficulty=2).unwrapped for name in ("ShownStory", "Story"))
    seen = set()
    for number in range(30):
        task = reader.numbered(number, "train")
        observation, info = reader.reset(options={"task": task})
        bare, _ = plain.reset(options={"task": task})
        added = observation.removeprefix(bare).removeprefix("\n\nHint: ")
        talk = hinted(agent.begin(task, plain.tools), Hint(0.5, added) if added else None)
        assert talk.prompt(bare, info) == agent.begin(task, plain.tools).prompt(observation, info)
        seen.add((bool(added), bench.FAILED in added))
    assert seen == {(False, False), (True, False), (True, True)}


def test_the_words_after_a_failure_are_those_of_agent_rlvr():
    episode = Episode("e", "a", "g", 0, turns=[Turn("o", action="answer[1]", valid=True)], success=False, reason="failure")
    episode.final_observation = "The answer is wrong."
    assert failure_report(episode, 1000) == bench.FAILED


def test_differences_to_grpo_are_paired_by_seed():
    common = {"updates": 1, "hinted": 0, "success_hinted": None, "before": 0.1, "steps": 3, "cpu": 9}
    rows = [{**common, "arm": "grpo", "seed": seed, "signal": 0.5, "after": 0.2 + 0.1 * seed} for seed in range(3)]
    gains = (0.01, 0.02, 0.03)  # standard deviation 0.01, half-width 4.303 * 0.01 / sqrt(3)
    rows += [
        {**row, "arm": "ghpo", "signal": 0.75, "after": row["after"] + gain} for row, gain in zip(rows, gains, strict=True)
    ]
    line = bench.report(rows)[-1]
    assert line.startswith("| `ghpo` | 75 % | +25.0 (+25.0 to +25.0) | 1, 1, 1 |")
    assert "| +2.0 (-0.5 to +4.5) |" in line
