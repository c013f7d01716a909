import pytest
from thicket import Graph, UnionFind, common_ancestor, diameter, spanning_tree, tree_parents


@pytest.fixture
def family():
    return Graph([(1, 2), (1, 3), (2, 4), (2, 5), (4, 6)])


def test_union_find():
    sets = UnionFind("abcd")
    assert sets.union("a", "b")
    assert not sets.union("b", "a")
    assert sets.connected("a", "b")
    assert not sets.connected("a", "c")


def test_union_find_sizes():
    sets = UnionFind("abcd")
    sets.union("a", "b")
    sets.union("c", "b")
    assert sets.size("c") == 3
    assert sets.size("d") == 1


def test_the_larger_set_stands_for_both():
    sets = UnionFind("abc")
    sets.union("a", "b")
    sets.union("c", "a")
    assert sets.find("c") == "a"


def test_union_find_groups():
    sets = UnionFind(range(5))
    sets.union(3, 1)
    sets.union(4, 0)
    assert sets.groups() == [[0, 4], [1, 3], [2]]


def test_adding_again_changes_nothing():
    sets = UnionFind("ab")
    sets.union("a", "b")
    sets.add("b")
    assert sets.connected("a", "b")


def test_spanning_tree():
    graph = Graph([("a", "b", 1), ("b", "c", 5), ("a", "c", 3), ("c", "d", 2)])
    assert spanning_tree(graph) == (6, [("a", "b", 1), ("c", "d", 2), ("a", "c", 3)])


def test_largest_spanning_tree():
    graph = Graph([("a", "b", 1), ("b", "c", 5), ("a", "c", 3)])
    assert spanning_tree(graph, largest=True) == (8, [("b", "c", 5), ("a", "c", 3)])


def test_spanning_forest():
    assert spanning_tree(Graph([(1, 2, 4), (3, 4, 1)]))[0] == 5


def test_parents(family):
    assert tree_parents(family, 1) == {1: None, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4}
    assert tree_parents(family, 4)[1] == 2


def test_no_trees(family):
    family.add(3, 6)
    with pytest.raises(ValueError, match="cycle"):
        tree_parents(family, 1)
    with pytest.raises(ValueError, match="parts"):
        tree_parents(Graph([(1, 2), (3, 4)]), 1)


@pytest.mark.parametrize(("one", "two", "expected"), [(6, 5, 2), (6, 3, 1), (4, 6, 4), (5, 5, 5), (1, 6, 1)])
def test_common_ancestor(family, one, two, expected):
    assert common_ancestor(family, 1, one, two) == expected


def test_diameter(family):
    steps, one, two = diameter(family)
    assert steps == 4
    assert {one, two} == {6, 3}


def test_diameter_of_a_single_node():
    graph = Graph()
    graph.add_node("x")
    assert diameter(graph) == (0, "x", "x")
