import pytest
from thicket import Graph, matching, max_flow, min_cut


@pytest.fixture
def pipes():
    edges = [("s", "a", 10), ("s", "b", 5), ("a", "b", 15), ("a", "t", 5), ("b", "t", 10)]
    return Graph(edges, directed=True)


def test_max_flow(pipes):
    total, used = max_flow(pipes, "s", "t")
    assert total == 15
    assert used == {("s", "a"): 10, ("s", "b"): 5, ("a", "b"): 5, ("a", "t"): 5, ("b", "t"): 10}


def test_flow_needs_to_go_back():
    edges = [("s", "a", 1), ("s", "b", 1), ("a", "c", 1), ("b", "c", 1), ("a", "d", 1), ("c", "t", 1), ("d", "t", 1)]
    assert max_flow(Graph(edges, directed=True), "s", "t")[0] == 2


def test_no_flow():
    graph = Graph([("s", "a", 3), ("b", "t", 3)], directed=True)
    assert max_flow(graph, "s", "t") == (0, {})


def test_flow_without_direction():
    total, used = max_flow(Graph([("t", "a", 2), ("a", "s", 3)]), "s", "t")
    assert total == 2
    assert used == {("a", "t"): 2, ("s", "a"): 2}


def test_flow_refuses():
    with pytest.raises(ValueError, match="the same"):
        max_flow(Graph([("s", "t")]), "s", "s")
    with pytest.raises(ValueError, match="none below 0"):
        max_flow(Graph([("s", "t", -1)]), "s", "t")


def test_min_cut(pipes):
    total, side = min_cut(pipes, "s", "t")
    assert total == 15
    assert side == {"s"}


def test_min_cut_in_the_middle():
    graph = Graph([("s", "a", 9), ("a", "b", 2), ("b", "t", 9)], directed=True)
    assert min_cut(graph, "s", "t") == (2, {"s", "a"})


def test_matching():
    pairs = [("ann", "x"), ("ann", "y"), ("bo", "x"), ("cy", "y"), ("cy", "z")]
    assert matching(pairs) == {"ann": "y", "bo": "x", "cy": "z"}


def test_matching_of_more_than_there_is():
    assert len(matching([(1, "x"), (2, "x"), (3, "x")])) == 1


def test_both_sides_may_have_the_same_names():
    assert matching([(1, 1), (1, 2), (2, 1)]) == {1: 2, 2: 1}
