"""Flows and matchings."""

from collections import deque

from thicket.graph import Graph


def _residual(graph):
    rest = {node: {} for node in graph}
    for source, target, capacity in graph.edges():
        if capacity < 0:
            raise ValueError(f"capacity {capacity}; expected none below 0")
        rest[source][target] = rest[source].get(target, 0) + capacity
        rest[target].setdefault(source, 0)
        if not graph.directed:
            rest[target][source] += capacity
    return rest


def _augmenting(rest, source, sink):
    came_from = {source: None}
    left = deque([source])
    while left:
        node = left.popleft()
        for neighbour, capacity in rest[node].items():
            if capacity > 0 and neighbour not in came_from:
                came_from[neighbour] = node
                if neighbour == sink:
                    return came_from
                left.append(neighbour)
    return None


def _flow(graph, source, sink):
    if source == sink:
        raise ValueError("source and sink are the same")
    rest = _residual(graph)
    total = 0
    while (came_from := _augmenting(rest, source, sink)) is not None:
        path = [sink]
        while path[-1] != source:
            path.append(came_from[path[-1]])
        path.reverse()
        amount = min(rest[one][two] for one, two in zip(path, path[1:]))
        for one, two in zip(path, path[1:]):
            rest[one][two] -= amount
            rest[two][one] += amount
        total += amount
    return total, rest


def max_flow(graph, source, sink):
    """Return (amount, (from, to) -> what flows there) of the greatest flow (Edmonds and Karp)."""
    total, rest = _flow(graph, source, sink)
    used = {}
    for one, two, capacity in graph.edges():
        amount = capacity - rest[one][two]
        if amount > 0:
            used[one, two] = amount
        elif amount < 0 and not graph.directed:
            used[two, one] = -amount
    return total, used


def min_cut(graph, source, sink):
    """Return (capacity, nodes on the source's side) of the smallest cut between two nodes."""
    total, rest = _flow(graph, source, sink)
    side, left = {source}, [source]
    while left:
        node = left.pop()
        for neighbour, capacity in rest[node].items():
            if capacity > 0 and neighbour not in side:
                side.add(neighbour)
                left.append(neighbour)
    return total, side


def matching(pairs):
    """Return as many of the (left, right) pairs as there can be without using anything twice, as left -> right."""
    graph = Graph(directed=True)
    graph.add_node("source")
    graph.add_node("sink")
    for left, right in pairs:
        graph.add("source", ("left", left))
        graph.add(("left", left), ("right", right))
        graph.add(("right", right), "sink")
    _, used = max_flow(graph, "source", "sink")
    return {one[1]: two[1] for one, two in used if one != "source" and two != "sink"}
