"""Shortest paths."""

import heapq
import itertools
from collections import deque


class NoPath(LookupError):
    """There is no way from one node to the other."""


def breadth_first(graph, start, limit=None):
    """Return node -> number of steps from a start, for what can be reached in at most `limit` steps."""
    steps = {start: 0}
    left = deque([start])
    while left:
        node = left.popleft()
        if limit is not None and steps[node] >= limit:
            continue
        for neighbour in graph.neighbours(node):
            if neighbour not in steps:
                steps[neighbour] = steps[node] + 1
                left.append(neighbour)
    return steps


def shortest_path(graph, start, goal, estimate=None):
    """Return (length, nodes) of the shortest path; NoPath where there is none, ValueError for a weight below 0.

    `estimate` says of a node how far the goal is at least (A*); a path is still the shortest if it never says too much.
    """
    guess = estimate or (lambda node: 0)
    order = itertools.count()
    best = {start: 0}
    came_from = {start: None}
    done = set()
    heap = [(guess(start), next(order), start)]
    while heap:
        _, _, node = heapq.heappop(heap)
        if node == goal:
            return best[goal], _trace(came_from, goal)
        if node in done:
            continue
        done.add(node)
        for neighbour, weight in graph.neighbours(node).items():
            if weight < 0:
                raise ValueError(f"weight {weight} between {node!r} and {neighbour!r}; expected none below 0")
            length = best[node] + weight
            if neighbour not in best or length < best[neighbour]:
                best[neighbour] = length
                came_from[neighbour] = node
                heapq.heappush(heap, (length + guess(neighbour), next(order), neighbour))
    raise NoPath(f"no path from {start!r} to {goal!r}")


def _trace(came_from, node):
    path = []
    while node is not None:
        path.append(node)
        node = came_from[node]
    return path[::-1]


def bellman_ford(graph, start):
    """Return node -> distance from a start; weights may be below 0. ValueError where a cycle makes paths ever shorter."""
    distance = {start: 0}
    edges = graph.edges()
    if not graph.directed:
        edges += [(target, source, weight) for source, target, weight in edges]
    for _ in range(len(graph) - 1):
        changed = False
        for source, target, weight in edges:
            if source in distance and distance[source] + weight < distance.get(target, float("inf")):
                distance[target] = distance[source] + weight
                changed = True
        if not changed:
            break
    for source, target, weight in edges:
        if source in distance and distance[source] + weight < distance[target]:
            raise ValueError("a cycle makes paths ever shorter")
    return distance


def all_distances(graph):
    """Return (source, target) -> distance for all pairs that a path joins (Floyd and Warshall)."""
    distance = {(node, node): 0 for node in graph}
    for source in graph:
        for target, weight in graph.neighbours(source).items():
            if source != target:
                distance[source, target] = weight
    for middle in graph:
        for source in graph:
            if (source, middle) not in distance:
                continue
            for target in graph:
                if (middle, target) in distance:
                    length = distance[source, middle] + distance[middle, target]
                    if length < distance.get((source, target), float("inf")):
                        distance[source, target] = length
    return distance
