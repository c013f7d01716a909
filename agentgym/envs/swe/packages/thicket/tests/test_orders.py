import pytest
from thicket import CycleError, Graph, components, levels, strong_components, topological_order
from thicket.orders import bipartite, find_cycle


def directed(*edges):
    return Graph(edges, directed=True)


def test_topological_order():
    assert topological_order(directed((3, 1), (1, 2), (5, 2), (2, 4))) == [3, 1, 5, 2, 4]


def test_the_smallest_comes_first():
    assert topological_order(directed((2, 9), (1, 9), (3, 0))) == [1, 2, 3, 0, 9]


def test_cycles_are_named():
    with pytest.raises(CycleError, match="2 -> 3 -> 2") as error:
        topological_order(directed((1, 2), (2, 3), (3, 2)))
    assert error.value.cycle == [2, 3, 2]


def test_find_cycle():
    assert find_cycle(directed((1, 2), (1, 3), (2, 4), (3, 4))) is None
    assert find_cycle(directed((0, 1), (1, 1))) == [1, 1]


def test_levels():
    assert levels(directed((1, 3), (2, 3), (3, 4), (1, 4))) == [[1, 2], [3], [4]]
    assert levels(Graph(directed=True)) == []


def test_components():
    graph = Graph([(1, 2), (3, 4), (4, 5)])
    graph.add_node(6)
    assert components(graph) == [{3, 4, 5}, {1, 2}, {6}]


def test_components_of_a_directed_graph():
    assert components(directed((1, 2), (3, 2))) == [{1, 2, 3}]


def test_strong_components():
    graph = directed((1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 4))
    assert strong_components(graph) == [{4, 5}, {1, 2, 3}]


def test_strong_components_of_a_chain():
    assert strong_components(directed((1, 2), (2, 3))) == [{3}, {2}, {1}]


def test_strong_components_with_a_way_into_what_is_done():
    graph = directed((1, 2), (3, 2), (1, 3))
    assert strong_components(graph) == [{2}, {3}, {1}]


def test_bipartite():
    assert bipartite(Graph([(1, 2), (2, 3), (3, 4), (5, 6)])) == ({1, 3, 5}, {2, 4, 6})
    assert bipartite(Graph([(1, 2), (2, 3), (3, 1)])) is None
