import pytest
from thicket import Graph, NoPath, all_distances, bellman_ford, breadth_first, shortest_path


@pytest.fixture
def town():
    return Graph([("a", "b", 7), ("a", "c", 2), ("c", "b", 3), ("b", "d", 1), ("c", "d", 8), ("e", "f", 1)])


def test_breadth_first(town):
    assert breadth_first(town, "a") == {"a": 0, "b": 1, "c": 1, "d": 2}


def test_breadth_first_with_a_limit(town):
    assert breadth_first(town, "a", limit=1) == {"a": 0, "b": 1, "c": 1}
    assert breadth_first(town, "a", limit=0) == {"a": 0}


def test_shortest_path(town):
    assert shortest_path(town, "a", "d") == (6, ["a", "c", "b", "d"])
    assert shortest_path(town, "d", "a") == (6, ["d", "b", "c", "a"])


def test_a_path_to_where_one_is(town):
    assert shortest_path(town, "a", "a") == (0, ["a"])


def test_no_path(town):
    with pytest.raises(NoPath, match="'a' to 'e'"):
        shortest_path(town, "a", "e")


def test_direction_counts():
    graph = Graph([(1, 2, 1), (2, 3, 1)], directed=True)
    assert shortest_path(graph, 1, 3) == (2, [1, 2, 3])
    with pytest.raises(NoPath):
        shortest_path(graph, 3, 1)


def test_weights_below_zero_are_refused():
    with pytest.raises(ValueError, match="none below 0"):
        shortest_path(Graph([(1, 2, -1)]), 1, 2)


def test_weights_of_zero_are_fine():
    assert shortest_path(Graph([(1, 2, 0), (2, 3, 0)]), 1, 3) == (0, [1, 2, 3])


def grid(size):
    graph = Graph()
    for x in range(size):
        for y in range(size):
            if x:
                graph.add((x - 1, y), (x, y))
            if y:
                graph.add((x, y - 1), (x, y))
    return graph


def test_an_estimate_gives_the_same_length():
    length, path = shortest_path(grid(5), (0, 0), (4, 4), estimate=lambda node: 8 - node[0] - node[1])
    assert length == 8
    assert len(path) == 9


def test_an_estimate_saves_work():
    asked = []

    def estimate(node):
        asked.append(node)
        return abs(4 - node[0]) + abs(node[1])

    shortest_path(grid(5), (0, 0), (4, 0), estimate=estimate)
    assert len(set(asked)) <= 10


def test_bellman_ford():
    graph = Graph([(1, 2, 4), (1, 3, 5), (3, 2, -3), (2, 4, 2), (5, 1, 1)], directed=True)
    assert bellman_ford(graph, 1) == {1: 0, 2: 2, 3: 5, 4: 4}


def test_bellman_ford_without_direction(town):
    assert bellman_ford(town, "d") == {"d": 0, "b": 1, "c": 4, "a": 6}


def test_bellman_ford_over_a_long_chain_listed_backwards():
    graph = Graph([(number, number + 1, 1) for number in range(8, -1, -1)], directed=True)
    assert bellman_ford(graph, 0)[9] == 9


def test_cycles_below_zero():
    with pytest.raises(ValueError, match="ever shorter"):
        bellman_ford(Graph([(1, 2, 1), (2, 3, -3), (3, 1, 1)], directed=True), 1)


def test_all_distances(town):
    distance = all_distances(town)
    assert distance["a", "d"] == 6
    assert distance["d", "c"] == 4
    assert distance["a", "a"] == 0
    assert ("a", "e") not in distance


def test_all_distances_ignores_loops():
    assert all_distances(Graph([(1, 1, 5), (1, 2, 1)]))[1, 1] == 0
