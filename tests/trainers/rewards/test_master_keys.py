"""A judge is tested with replies that say nothing before a run, as in One Token to Fool LLM-as-a-Judge."""

import asyncio
import json
import re

import pytest

import agentgym
from agentgym.errors import BadConfig, Fault
from agentgym.trainers.rewards.interface import reach, resolve_rewards
from agentgym.trainers.rewards.master_keys import KEYS, attempt, check, fooled


class Judge:
    """Grades the one reply of an attempt by a function."""

    def __init__(self):
        self.grade, self.seen = (lambda reply: 0.0), []

    async def chat(self, messages, tools, sampling, session):
        prompt = str(messages[0]["content"])
        mark = re.search(r"BEGIN (\w+)\n", prompt)
        if mark is None:
            return agentgym.Completion([], [], "stop", text="OK")
        reply = json.loads(prompt.split(f"BEGIN {mark[1]}\n")[1].split(f"\nEND {mark[1]}")[0].splitlines()[1])["reply"]
        self.seen.append(reply)
        return agentgym.Completion([], [], "stop", text=f"VERDICT {mark[1]} {self.grade(reply)}")

    def close(self):
        pass


JUDGE = Judge()


def hired(**_):
    return JUDGE


def reached(tmp_path, grade, **options):
    (tmp_path / "rubric.md").write_text("1 for a right answer.")
    JUDGE.grade, JUDGE.seen = grade, []
    named = {"engine": f"{__name__}:hired", "rubric": str(tmp_path / "rubric.md"), **options}
    asyncio.run(reach(resolve_rewards(["judge"], named)))


def test_a_judge_that_pays_an_opening_is_refused_by_name(tmp_path):
    with pytest.raises(BadConfig, match=r"grades replies that say nothing above 0.5: 'Solution' 0.9\. A policy would"):
        reached(tmp_path, lambda reply: 0.9 if reply == "Solution" else 0.1)
    assert JUDGE.seen == list(KEYS) and len(KEYS) == 10
    reached(tmp_path, lambda reply: 0.9, fooled=0.95)
    reached(tmp_path, lambda reply: 0.5)
    reached(tmp_path, lambda reply: 1.0, fooled=1.0)
    assert JUDGE.seen == []


def test_the_keys_that_fool_a_judge_by_hand():
    async def grade(episode):
        return {":": 0.6, " ": 0.8}.get(episode.turns[0].text, 0.0)

    assert asyncio.run(fooled(grade, 0.5)) == {" ": 0.8, ":": 0.6} and asyncio.run(fooled(grade, 0.7)) == {" ": 0.8}
    assert attempt(":").success is False and attempt(":").instruction

    async def broken(episode):
        return Fault("no verdict")

    asyncio.run(check("it", broken, 0.5))  # what a judge cannot grade, it does not pay
