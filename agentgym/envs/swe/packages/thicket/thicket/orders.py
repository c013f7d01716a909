"""Orders and components."""

import heapq


class CycleError(ValueError):
    """Nodes that wait for each other; `cycle` lists them, the first again at the end."""

    def __init__(self, cycle):
        super().__init__("cycle: " + " -> ".join(str(node) for node in cycle))
        self.cycle = cycle


def topological_order(graph):
    """Return the nodes so that all edges lead forwards, the smallest first where there is a choice; CycleError if none."""
    waiting = {node: 0 for node in graph}
    for _, target, _ in graph.edges():
        waiting[target] += 1
    ready = [node for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for neighbour in graph.neighbours(node):
            waiting[neighbour] -= 1
            if waiting[neighbour] == 0:
                heapq.heappush(ready, neighbour)
    if len(order) < len(graph):
        raise CycleError(find_cycle(graph))
    return order


def find_cycle(graph):
    """Return a cycle of a directed graph as a list that begins and ends with one node; None where there is none."""
    state = {}
    for start in graph:
        if start in state:
            continue
        path, stack = [], [(start, iter(graph.neighbours(start)))]
        state[start] = "open"
        path.append(start)
        while stack:
            node, neighbours = stack[-1]
            for neighbour in neighbours:
                if state.get(neighbour) == "open":
                    return [*path[path.index(neighbour) :], neighbour]
                if neighbour not in state:
                    state[neighbour] = "open"
                    path.append(neighbour)
                    stack.append((neighbour, iter(graph.neighbours(neighbour))))
                    break
            else:
                state[node] = "closed"
                path.pop()
                stack.pop()
    return None


def levels(graph):
    """Return the nodes in groups, each of which needs only nodes of the groups before it (a schedule in parallel)."""
    depth = {}
    for node in topological_order(graph):
        depth.setdefault(node, 0)
        for neighbour in graph.neighbours(node):
            depth[neighbour] = max(depth.get(neighbour, 0), depth[node] + 1)
    groups = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in graph:
        groups[depth[node]].append(node)
    return groups


def components(graph):
    """Return the sets of nodes that edges join, in whatever direction; the largest first, equals as they came."""
    turned = graph.reversed()
    found, seen = [], set()
    for start in graph:
        if start in seen:
            continue
        part, left = set(), [start]
        while left:
            node = left.pop()
            if node not in part:
                part.add(node)
                left.extend(graph.neighbours(node))
                left.extend(turned.neighbours(node))
        seen |= part
        found.append(part)
    return sorted(found, key=len, reverse=True)


def strong_components(graph):
    """Return the sets of nodes each of which can be reached from the others, those that lead nowhere else first (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for neighbour in graph.neighbours(node):
            if neighbour not in index:
                visit(neighbour)
                low[node] = min(low[node], low[neighbour])
            elif neighbour in stack:
                low[node] = min(low[node], index[neighbour])
        if low[node] == index[node]:
            place = stack.index(node)
            found.append(set(stack[place:]))
            del stack[place:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


def bipartite(graph):
    """Return the two sides of a graph whose edges all lead from one to the other; None where there are none such."""
    side = {}
    for start in graph:
        if start in side:
            continue
        side[start] = 0
        left = [start]
        while left:
            node = left.pop()
            for neighbour in graph.neighbours(node):
                if neighbour not in side:
                    side[neighbour] = 1 - side[node]
                    left.append(neighbour)
                elif side[neighbour] == side[node]:
                    return None
    return {node for node in side if side[node] == 0}, {node for node in side if side[node] == 1}
