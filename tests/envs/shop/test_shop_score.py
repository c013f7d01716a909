"""The shop's score, worked out by hand."""

import pytest
from shop_files import product

from agentgym.envs.shop.lexicon import lexicon
from agentgym.envs.shop.score import Goal, kind_score, plain_colour, score


def test_scores_by_hand():
    cup = product()
    goal = Goal(cup.asin, "", ("leak proof", "double wall"), (("color", "red"), ("size", "12 oz")), 20.0)
    assert score(cup, cup, goal, {"color": "red", "size": "12 oz"})["score"] == 1.0
    assert score(cup, cup, goal, {"color": "red"})["score"] == pytest.approx(4 / 5)
    other = product(attributes=("leakproof wall",), bullets=("It is double WALL made.",), price=25.0)
    assert score(other, cup, goal, {}) == {
        "score": pytest.approx(1 / 5), "type": 1.0, "attributes": 0.5, "options": 0.0, "price": 0.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, 1.0),
        ({"query": "x", "product_category": "y"}, 1.0),  # by its title alone
        ({"title": "Pillow"}, 0.0),
        ({"title": "Cup of a b c d e f g h i j k l"}, 1.0),
        ({"title": "Alpha Steel Bin", "query": "x", "product_category": "y"}, 1.0),  # one of two nouns: above 0.2
    ],
)
def test_kinds_by_hand(changes, kind):
    assert kind_score(product(**changes), product(title="Steel Travel Cup")) == kind  # nouns: steel, cup


def test_kinds_of_little_in_common_by_hand():
    wanted = product(title="Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda")  # 11 nouns
    assert kind_score(product(title="Alpha", query="x", product_category="y"), wanted) == 0.1  # 1/11 of them
    assert kind_score(product(title="Alpha Beta", query="x", product_category="y"), wanted) == 0.5  # 2/11
    assert kind_score(product(title="Alpha Beta", query="x"), wanted) == 1.0  # two categories shared


def test_colours_stand_for_what_they_are_part_of():
    assert plain_colour("light blue stripes") == "blue" and plain_colour("washed denim") == "ash"
    assert plain_colour("12 oz") == "12 oz"
    assert list(lexicon().colours) == sorted(lexicon().colours)


def test_every_option_of_our_own_goods_can_be_chosen_rightly():
    cup = product()
    for kind in lexicon().kinds.values():
        for name, values in kind.options.items():
            for value in values:
                goal = Goal(cup.asin, "", (), ((name, value),), 20.0)
                assert score(cup, cup, goal, {name: value})["options"] == 1.0, (name, value)
