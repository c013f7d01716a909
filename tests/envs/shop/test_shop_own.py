"""The shop's own catalogue: its categories, splits, wishes, oracle and expert."""

import pytest

import agentgym
from agentgym import BadConfig, Task
from agentgym.envs.shop.buyer import read_wish
from agentgym.envs.shop.generate import SIZE, catalogue


def test_the_expert_reads_what_is_said_of_a_product():
    """A wish is on every page; an attribute counts as seen only where the product itself has it."""
    env = agentgym.make("rlvr/Shop-v0", horizon=40, difficulty=1)
    read, found = 0, []
    for task in env.tasks(30):
        env.reset(seed=0, options={"task": task})
        while env.success is None:
            action = next(env.expert())
            read += action == "click[features]"
            if env.step(action)[3]:
                break
        found.append(env.score["attributes"] == 1)
    assert read > 10 and sum(found) >= 25


def test_the_own_catalogue_has_ten_categories_of_near_alikes():
    shop = catalogue(SIZE)
    assert len(shop.products) >= 5000 and len(shop.by_asin) == len(shop.products)
    assert len({p.category for p in shop.products}) == 10 and all(len(p.asin) == 10 for p in shop.products)


def test_a_small_shop_is_split_by_product_too():
    """Whatever is for sale, no product is wanted in two splits."""
    wanted = {}
    for split in ("train", "valid", "test"):
        env = agentgym.make("rlvr/Shop-v0", preset="tiny", split=split)
        assert len(env.catalogue(0).products) == 200
        wanted[split] = {task.data["asin"] for task in env.tasks(60)}
    assert all(wanted.values()) and not (wanted["train"] & wanted["test"] or wanted["train"] & wanted["valid"])
    assert not wanted["valid"] & wanted["test"]
    with pytest.raises(BadConfig, match=r"products of Shop is -1; expected a number from 0"):
        agentgym.make("rlvr/Shop-v0", products=-1)
    with pytest.raises(BadConfig, match=r"show_attrs of Shop is 1; expected True or False"):
        agentgym.make("rlvr/Shop-v0", show_attrs=1)


@pytest.mark.parametrize("difficulty", [0, 2, 4])
def test_the_oracle_buys_what_is_wanted(difficulty):
    env = agentgym.make("rlvr/Shop-v0", difficulty=difficulty, horizon=40)
    for task in env.tasks(12):
        env.reset(seed=0, options={"task": task})
        env.step("search[cups]")
        while env.success is None:
            env.step(next(env.oracle()))
        assert env.success, task.id


def test_wishes_are_read():
    what = "i need leak proof, bpa free mugs with color: red, and size: 2 pieces, and price lower than 30.00 dollars"
    assert read_wish(what) == ("leak proof, bpa free mugs", {"color": "red", "size": "2 pieces"}, 30.0)
    assert read_wish("find me vegan tea")[1:] == ({}, float("inf"))


def test_the_score_can_be_paid():
    env = agentgym.make("rlvr/Shop-v0", shaping={"score": 0.5})
    task = next(task for task in env.tasks(9) if task.data["options"])
    env.reset(seed=0, options={"task": task})
    actions = [*env.oracle()]
    for action in (*actions[:2], actions[-1]):  # without the options
        _, reward, _, _, info = env.step(action)
    assert 0 < env.score["score"] < 1 and info["metrics"]["type"] == 1.0
    assert info["rewards"] == {"score": pytest.approx(0.5 * env.score["score"])} and reward == info["rewards"]["score"]


@pytest.mark.parametrize("difficulty", [0, 1, 2, 3])
def test_no_result_of_a_search_for_the_wish_is_right_by_its_place(difficulty):
    from agentgym.contract import examine
    from agentgym.contract.shortcuts import GENERIC
    from agentgym.contract.solutions import from_text, success_rate

    under_test = examine("rlvr/Shop-v0", difficulty=difficulty)
    assert success_rate(under_test, GENERIC["first hit"]) <= 0.1
    assert success_rate(under_test, from_text(under_test.env.shortcuts()["second_result"])) <= 0.4


def test_each_difficulty_has_ten_more_turns_unless_the_caller_says():
    env = agentgym.make("rlvr/Shop-v0", difficulty=2, products=200)
    assert [env.limit_of(Task(difficulty=difficulty)) for difficulty in (0, 1, 3)] == [15, 25, 45]
    assert agentgym.make("rlvr/Shop-v0", preset="tiny").limit_of(Task(difficulty=2)) == 8
    assert agentgym.make("rlvr/Shop-v0", horizon=20).limit_of(Task(difficulty=2)) == 20


def test_the_expert_opens_the_title_with_most_of_the_wish():
    env = agentgym.make("rlvr/Shop-v0")
    env.reset(seed=0, options={"task": env.tasks(1)[0]})
    env.step(next(env.expert()))
    opened = env.shop.by_asin[next(env.expert())[6:-1].lower()]
    *attributes, last = read_wish(env.task.instruction)[0].split(", ")
    words = [*attributes, *last.split()]
    products = [env.shop.by_asin[asin] for asin in env.results()]
    cheap = [one for one in products if float(one.price_tag.split()[0][1:]) <= env.goal.price_cap]
    assert opened in cheap
    assert sum(word in opened.title.lower() for word in words) == max(
        sum(word in one.title.lower() for word in words) for one in cheap
    )
