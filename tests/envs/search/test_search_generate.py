"""Generated worlds: what their documents say, what their questions ask, and what no split shares with another."""

import re
import subprocess
import sys

import numpy as np
import pytest

from agentgym.envs.search import Search
from agentgym.envs.search.generate import World
from agentgym.envs.search.generate import world as cached_world
from agentgym.envs.search.names import PARTS
from agentgym.envs.search.questions import WRAPPERS, draw_question, parse_question
from agentgym.envs.search.reader import kind_of, read
from agentgym.envs.search.relations import OF_KIND, RELATIONS
from agentgym.rewards.exact_match import normalise

SPLITS = ("train", "valid", "test")
WORLDS = [
    World(number, split, difficulty) for number, split, difficulty in ((1, "train", 2), (2, "valid", 1), (3, "test", 4))
]


@pytest.fixture(params=WORLDS, ids=lambda world: f"{world.split}-{world.difficulty}")
def world(request: pytest.FixtureRequest) -> World:
    return request.param


def test_documents_say_exactly_the_facts_each_in_one_place(world: World) -> None:
    statements = [
        (*fact, number) for number, d in enumerate(world.corpus.documents) for fact in read(d.title, d.text)
    ]  # fmt: skip
    assert len(statements) == len(set(statements)) == len(world.facts)
    assert set(statements) == {(f.relation, f.subject, f.object, f.document) for f in world.facts.values()}


def test_every_relation_has_one_value_per_subject(world: World) -> None:
    values: dict[tuple[str, str], set[str]] = {}
    for document in world.corpus.documents:
        for relation, subject, found in read(document.title, document.text):
            values.setdefault((relation, subject), set()).add(found)
    assert all(len(found) == 1 for found in values.values())
    assert set(values) == {(r.name, name) for name, kind in world.entities for r in OF_KIND[kind]}


def test_names_are_distinct_even_when_normalised(world: World) -> None:
    names = [name for name, _ in world.entities]
    assert len({normalise(name) for name in names}) == len(names)
    assert all(kind_of(world.corpus.documents[i].text) == kind for i, (_, kind) in enumerate(world.entities))


def test_some_facts_stand_only_in_the_document_of_their_object(world: World) -> None:
    turned = [f for f in world.facts.values() if world.entities[f.document][0] == f.object]
    assert 0.05 < len(turned) / len(world.facts) < 0.5
    assert all(world.entities[f.document][0] in (f.subject, f.object) for f in world.facts.values())


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_questions_follow_from_their_evidence(world: World, hops: int) -> None:
    rng = np.random.default_rng(hops)
    for _ in range(100):
        question = draw_question(world, rng, hops)
        assert parse_question(question.text) == (question.start, question.relations)
        assert len(set(question.evidence)) == len(question.evidence) == hops
        documents = [world.corpus.documents[n] for n in question.evidence]
        facts = {(r, s): o for d in documents for r, s, o in read(d.title, d.text)}
        here = question.start
        for relation in question.relations:
            here = facts[relation, here]
        assert here == question.answer
        assert not set(normalise(question.answer).split()) & set(normalise(question.text).split())


def test_every_question_form_is_taken_apart_again() -> None:
    for outer in RELATIONS:
        for inner in RELATIONS:
            if inner.object in outer.subjects:
                for split in SPLITS:
                    for a in outer.phrases(split):
                        for b in inner.phrases(split):
                            text = f"What is {a.replace('{x}', b.replace('{x}', 'The Silver Mirror of Vanton'))}?"
                            assert parse_question(text) == ("The Silver Mirror of Vanton", (inner.name, outer.name)), text
    assert parse_question("How old is the captain?") is None


def test_no_name_part_and_no_question_form_is_in_two_splits() -> None:
    for parts in zip(*[[*vars(PARTS[split]).values()] for split in SPLITS], strict=True):
        assert len(set().union(*parts)) == sum(len(set(part)) for part in parts)
    for relation in RELATIONS:
        forms = [form for split in SPLITS for form in relation.phrases(split)]
        assert len(set(forms)) == len(forms)
    every = [form for relation in RELATIONS for split in SPLITS for form in relation.phrases(split)]
    assert len(set(every)) == len(every)
    wrappers = [wrapper for split in SPLITS for wrapper in WRAPPERS[split]]
    assert len(set(wrappers)) == len(wrappers)


def test_no_word_of_a_name_and_no_world_is_in_two_splits() -> None:
    words: dict[str, set[str]] = {}
    worlds: dict[str, set[int]] = {}
    for split in SPLITS:
        tasks = Search(difficulty=3).tasks(15, split)
        worlds[split] = {task.data["world"] for task in tasks}
        env = Search(difficulty=3)
        assert all(env.split_of(task) == split == task.split for task in tasks)
        names = [name for number in worlds[split] for name, _ in World(number, split, 3).entities]
        words[split] = {word for name in names for word in re.findall(r"\w+", name)} - {"The", "of"}
    for a, b in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not words[a] & words[b]
        assert not worlds[a] & worlds[b]


def test_difficulty_grows_worlds_and_hops() -> None:
    hops = {d: {t.data["hops"] for t in Search(difficulty=d, worlds=3).tasks(60)} for d in (0, 1, 2, 3, 5)}
    assert hops == {0: {1, 2}, 1: {1, 2, 3}, 2: {1, 2, 3, 4}, 3: {2, 3, 4}, 5: {4}}
    assert [len(World(1, "train", d).entities) for d in (0, 2, 10)] == [60, 240, 960]
    assert {t.data["hops"] for t in Search(hops=3, worlds=3).tasks(20)} == {3}


@pytest.mark.parametrize("split", SPLITS)
def test_a_world_of_a_high_difficulty_has_names_for_all(split: str) -> None:
    """Nearly all of them resemble another there, and of such names there are only so many."""
    env = Search(difficulty=40, split=split)
    env.reset(seed=0, options={"task": 0})
    large = cached_world(env.task.data["world"], split, 40)
    assert len(large.corpus.documents) == 60 + 90 * 40
    test_names_are_distinct_even_when_normalised(large)
    assert all(env.step(action)[4]["valid"] for action in env.oracle()) and env.success


def test_worlds_bounds_their_number() -> None:
    assert len({task.data["world"] for task in Search(worlds=4).tasks(60)}) == 4
    assert len({task.data["world"] for task in Search(difficulty=0).tasks(60)}) == 60


def test_a_world_is_the_same_in_another_process() -> None:
    code = (
        "from agentgym.envs.search.generate import World; import hashlib;"
        "w = World(7, 'train', 1); print(hashlib.sha256(repr((w.entities, w.corpus.documents)).encode()).hexdigest(),"
        "[hit.document.id for hit in w.corpus.search(['the town of the founder'], 3)[0]])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
