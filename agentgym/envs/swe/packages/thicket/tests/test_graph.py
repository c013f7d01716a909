import pytest
from thicket import Graph


@pytest.fixture
def roads():
    return Graph([("a", "b", 4), ("b", "c", 2), ("c", "a")])


def test_edges_go_both_ways(roads):
    assert roads.weight("b", "a") == 4
    assert roads.has_edge("a", "c")


def test_directed_edges_go_one_way():
    graph = Graph([("a", "b")], directed=True)
    assert graph.has_edge("a", "b")
    assert not graph.has_edge("b", "a")


def test_weight_is_one_by_default(roads):
    assert roads.weight("c", "a") == 1
    assert roads.weight("a", "z") is None
    assert roads.weight("a", "z", 9) == 9


def test_adding_again_changes_the_weight(roads):
    roads.add("a", "b", 7)
    assert roads.weight("b", "a") == 7
    assert len(roads.edges()) == 3


def test_edges_once_each(roads):
    assert roads.edges() == [("a", "b", 4), ("a", "c", 1), ("b", "c", 2)]


def test_edges_of_a_directed_graph():
    assert Graph([(1, 2), (2, 1)], directed=True).edges() == [(1, 2, 1), (2, 1, 1)]


def test_remove(roads):
    roads.remove("b", "a")
    assert not roads.has_edge("a", "b")
    assert "a" in roads
    with pytest.raises(KeyError):
        roads.remove("a", "b")


def test_remove_a_loop():
    graph = Graph([(1, 1)])
    graph.remove(1, 1)
    assert graph.edges() == []


def test_remove_node(roads):
    roads.remove_node("a")
    assert "a" not in roads
    assert roads.neighbours("b") == {"c": 2}
    assert len(roads) == 2


def test_neighbours_are_a_copy(roads):
    roads.neighbours("a").clear()
    assert roads.neighbours("a") == {"b": 4, "c": 1}


def test_degree(roads):
    roads.add("a", "a")
    assert roads.degree("a") == 4
    assert roads.degree("b") == 2


def test_degree_of_a_directed_graph():
    graph = Graph([(1, 2), (3, 2), (2, 4)], directed=True)
    assert graph.degree(2) == 3
    assert graph.degree(1) == 1


def test_reversed():
    graph = Graph([(1, 2, 5)], directed=True)
    graph.add_node(3)
    turned = graph.reversed()
    assert turned.edges() == [(2, 1, 5)]
    assert list(turned) == [1, 2, 3]


def test_subgraph(roads):
    part = roads.subgraph(["c", "b"])
    assert list(part) == ["b", "c"]
    assert part.edges() == [("b", "c", 2)]


def test_copies_change_apart(roads):
    other = roads.copy()
    other.add("a", "d")
    assert "d" not in roads
    assert not Graph(directed=False).copy().directed
    assert Graph(directed=True).copy().directed
