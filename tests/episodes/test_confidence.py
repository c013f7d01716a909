"""Stated confidence: what is read as one, calibration by hand, the prompt that asks for it, and the report."""

import pytest

import agentgym
from agentgym import Episode, Turn
from agentgym.agents.prompt import load_prompt
from agentgym.episodes.confidence import calibration, confidence, sentence
from agentgym.evaluate.markdown import as_markdown
from agentgym.evaluate.summary import summarize
from agentgym.trainers.rewards.calibration import calibration as paid


def ended(stated, won):
    text = f"<think>so <confidence>{stated}</confidence></think>\n<answer>7</answer>"
    return Episode("rlvr/Math-v0", "t", "g", 0, turns=[Turn("", text=text)], success=won)


def test_calibration_by_hand():
    # 0.9 twice, one of them right; 0.95 right: one range with mean 2.75 / 3 and 2 / 3 right. 0.1 wrong; one silent
    episodes = [
        ended(0.9, True),
        ended(0.9, False),
        ended(0.95, True),
        ended(0.1, False),
        ended("sure", True),
    ]
    row = calibration(episodes)
    assert row["stated"] == 0.8 and row["confidence"] == pytest.approx(2.85 / 4)
    assert row["ece"] == pytest.approx((abs(2.75 - 2) + 0.1) / 4)
    assert row["brier"] == pytest.approx((0.01 + 0.81 + 0.0025 + 0.01) / 4)
    assert calibration([ended("sure", True)]) is None and calibration([]) is None
    honest = [ended(0.5, n % 2 == 0) for n in range(10)]
    assert calibration(honest)["ece"] == 0.0 and calibration(honest)["brier"] == 0.25
    assert calibration([ended("1.0", True), ended("0", False)])["ece"] == 0.0


def test_an_evaluation_reports_it():
    summary = summarize([ended(0.9, True), ended(0.9, False)])
    assert summary["calibration"]["ece"] == pytest.approx(0.4) == summary["envs"]["rlvr/Math-v0"]["calibration"]["ece"]
    assert "calibration" not in summarize([ended("sure", True)])
    text = as_markdown({**summary, "comparable": "yes", "contamination": {}}, {"sessions": [], "options": {}})
    assert "## Calibration" in text and "expected calibration error 0.400" in text
    assert sentence(summary["calibration"]).startswith("confidence was stated in 100.0 % of the episodes, 0.90 on average")


def test_the_prompt_asks_for_it_and_its_replies_are_read():
    prompt = load_prompt("rlcr")
    env = agentgym.make("rlvr/Math-v0")
    reply = "<think>6 + 1 <confidence>0.8</confidence></think>\n<answer>7</answer>"
    assert prompt.reply.parse(reply, env.tools) == ("<answer>7</answer>", True)
    assert confidence(reply) == 0.8
    episode = ended(0.8, False)
    assert paid([episode], weight=0.5)[0]["calibration"] == pytest.approx(-0.32)
