"""The search world: what its tools answer, what is paid, what counts as state, and who solves it."""

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym  # noqa: F401  # registers the worlds
from agentgym.core.env import Task
from agentgym.envs.search import Search
from agentgym.errors import BadConfig, UnknownName


@pytest.fixture(scope="module")
def env() -> Search:
    return Search(worlds=5)


def test_search_lists_title_and_beginning_and_open_shows_all(env: Search) -> None:
    _, info = env.reset(options={"task": 0})
    name = env._documents.documents[0].title
    listed, _, _, _, info = env.step(f"search[{name}]")
    lines = listed.split("\n")
    assert len(lines) == 3 and lines[0].startswith(f'Doc 1(Title: "{name}") {name} ')
    assert lines[0].endswith(" …") and info["valid"]
    for handle in (name, name.lower(), f' "{name}" ', "0"):
        whole, _, _, _, info = env.step(f"open[{handle}]")
        assert whole == f"{name}\n{env._documents.documents[0].text}" and info["valid"]


def test_observations_are_bounded() -> None:
    env = Search(top_k=2, passage=50, page=60, worlds=1)
    env.reset(options={"task": 0})
    listed = env.step("search[town person festival]")[0]
    assert len(listed.split("\n")) == 2 and all(len(line) < 130 for line in listed.split("\n"))
    page = env.step("open[3]")[0]
    assert len(page) < 200 and "more characters are not shown" in page


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("search[]", "contains no words"),
        ("search[?!…]", "contains no words"),
        (f"search[{'x ' * 600}]", "1200 characters; at most 1000"),
        ("open[]", "No document has the title or id ''. Search for it first."),
        ("open[Nowhere At All]", "No document has the title or id 'Nowhere At All'"),
        ("answer[  ]", "the answer is empty"),
        ("lookup[x]", "there is no tool 'lookup'. The tools are: search, open, answer."),
    ],
)
def test_invalid_actions_say_what_to_do(env: Search, action: str, expected: str) -> None:
    env.reset(options={"task": 0})
    key = env.info()["state_key"]
    text, reward, terminated, _, info = env.step(action)
    assert expected in text and info["error"] == text
    assert (reward, terminated, info["valid"], info["state_key"]) == (0.0, False, False, key)


def test_a_near_miss_is_told_the_nearest_titles(env: Search) -> None:
    env.reset(options={"task": 0})
    title = next(d.title for d in env._documents.documents if " " in d.title)
    assert title in env.step(f"open[{title} xx]")[0]


def test_no_hit_is_valid(env: Search) -> None:
    env.reset(options={"task": 0})
    text, _, _, _, info = env.step("search[qqqq]")
    assert "No document contains" in text and info["valid"]


def test_the_outcome_alone_is_paid(env: Search) -> None:
    _, info = env.reset(options={"task": 1})
    assert info["metrics"] == {"evidence": 0.0, "f1": 0.0, "format": 0.0}
    answer = env.task.data["answers"][0]
    _, reward, terminated, _, info = env.step(f"answer[ the {answer.upper()}. ]")
    assert (reward, terminated, info["rewards"]) == (1.0, True, {"success": 1.0})
    assert info["metrics"] == {"evidence": 0.0, "f1": 1.0, "format": 1.0}
    env.reset(options={"task": 1})
    _, reward, terminated, _, info = env.step(f"answer[{answer} or not]")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    size = len(answer.split())
    assert info["metrics"]["f1"] == pytest.approx(2 * size / (2 * size + 2))


def test_evidence_is_the_share_of_the_chain_shown_and_paid_once() -> None:
    env = Search(hops=4, worlds=2, shaping={"evidence": 0.4})
    env.reset(options={"task": 0})
    paid = [env.step(action)[1] for action in (f"open[{n}]" for n in env.task.data["evidence"] for _ in range(2))]
    assert paid == pytest.approx([0.1, 0.0] * 4)
    assert sum(paid) + env.step("answer[nothing]")[1] < 1


def test_documents_shown_are_the_state_whatever_the_order(env: Search) -> None:
    def key(*actions: str) -> str:
        env.reset(options={"task": 2})
        for action in actions:
            env.step(action)
        return env.info()["state_key"]

    assert key("open[1]", "open[2]") == key("open[2]", "open[1]", "open[2]")
    assert key("open[1]") != key("open[2]") != key()
    assert key("search[qqqq]") == key()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["search[town]", "search[born]", "open[3]", "open[9]", "search[]", "open[x]"]), max_size=5))
def test_equal_keys_answer_alike_and_snapshots_go_on(actions: list[str]) -> None:
    env, other = Search(worlds=1), Search(worlds=1)
    env.reset(seed=1, options={"task": 0})
    for action in actions:
        env.step(action)
    other.restore(env.snapshot())
    again = Search(worlds=1)
    again.reset(seed=1, options={"task": 0})
    for action in sorted(set(actions)):
        again.step(action)
    assert other.info()["state_key"] == env.info()["state_key"] == again.info()["state_key"]
    assert next(other.expert()) == next(env.expert())
    for action in ("search[founder]", "open[1]", next(env.expert())):
        first = env.step(action)
        assert other.step(action) == first
        assert again.step(action)[0] == first[0]


def test_oracle_solves_from_anywhere_in_hops_plus_one() -> None:
    env = Search(worlds=5)
    for task in env.tasks(30):
        env.reset(options={"task": task})
        steps = list(env.oracle())
        assert len(steps) == task.data["hops"] + 1
        env.step(steps[0])
        env.step("open[0]")
        for action in list(env.oracle()):
            last = env.step(action)
        assert last[1] == 1.0 and last[4]["metrics"]["evidence"] == 1.0


@pytest.mark.parametrize("split", ["train", "test"])
def test_expert_solves_by_reading(split: str) -> None:
    env, solved = Search(worlds=8, split=split), 0
    for task in env.tasks(60):
        env.reset(options={"task": task})
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(next(env.expert()))
            ended = terminated or truncated
        solved += env.success is True
    assert solved >= 54


def test_expert_knows_only_what_was_shown() -> None:
    """With the answers and the evidence taken out of the task it does the same."""
    env, blind = Search(worlds=3), Search(worlds=3)
    for task in env.tasks(10):
        data = {**task.data, "answers": ["?"], "evidence": []}
        env.reset(options={"task": task})
        blind.reset(options={"task": Task(task.instruction, data, task.id, task.split, task.difficulty)})
        ended = False
        while not ended:
            action = next(env.expert())
            assert next(blind.expert()) == action
            _, _, terminated, truncated, _ = env.step(action)
            blind.step(action)
            ended = terminated or truncated


def test_text_the_world_printed_earns_nothing(env: Search) -> None:
    env.reset(options={"task": 0})
    text = env.step(f"open[{env.task.data['evidence'][-1]}]")[0]
    assert env.task.data["answers"][0] in text
    assert env.step(text)[1] == 0.0 and env.step(f"answer[{text}]")[1] == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": "a", "corpus": "b", "questions": "c"}, "give one of them"),
        ({"corpus": "b"}, "go together"),
        ({"hops": -1}, "hops of Search is -1"),
        ({"top_k": 0}, "expected an integer from 1"),
        ({"passage": "long"}, "passage of Search is 'long'"),
        ({"worlds": True}, "worlds of Search is True"),
    ],
)
def test_bad_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        Search(**options)


def test_more_hops_than_the_world_allows() -> None:
    with pytest.raises(BadConfig, match="no question of 500 hops"):
        Search(hops=500, difficulty=0).numbered(0)


def test_unknown_names() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        Search(split="trian")
    with pytest.raises(BadConfig, match="SPLIT/DIFFICULTY/NUMBER"):
        Search().find("nonsense")


def test_registered_and_bare() -> None:
    env = gym.make("rlvr/Search-v0", split="test", preset="tiny")
    assert isinstance(env, Search)
    observation, info = env.reset(seed=7)
    assert observation.startswith("Question: ") and info["task_id"].startswith("test/0/")
    assert env.find(info["task_id"]) == env.task
    assert list(env.tools) == ["search", "open", "answer"]
