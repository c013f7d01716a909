"""Graphs with weighted edges: modified edge by edge, then searched."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import integer


def _graph(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    count = int(rng.integers(3, 7 + min(difficulty, 5)))
    edges: list[tuple[int, int, int]] = []
    for _number in range(int(rng.integers(0 if rng.random() < 0.1 else 2, 2 * count + 2))):
        a, b = (int(x) for x in rng.integers(0, count, 2))
        if a != b or rng.random() < 0.15:
            edges.append((a, b, int(rng.integers(1, 10))))
    return [count, edges]


FRAMES = (
    Frame(
        "A directed graph has the nodes 0 to `n` - 1; `edges` is a list of tuples (a, b, weight), each an edge from "
        "a to b with a weight of at least 1. There may be several edges between two nodes, and edges from a node to "
        "itself.",
        "n, edges",
        _graph,
        "edges = [tuple(edge) for edge in edges]",
        gives="edges",
        asks="Apply these steps to the edges in order:",
    ),
    Frame(
        "An undirected graph has the nodes 0 to `n` - 1; `edges` is a list of tuples (a, b, weight), each an edge "
        "between a and b with a weight of at least 1.",
        "n, edges",
        _graph,
        "edges = [edge for a, b, w in edges for edge in ((a, b, w), (b, a, w))]",
        ("edges = [tuple(edge) for edge in edges]", "edges = [(b, a, w) for a, b, w in edges]"),
        gives="edges",
        asks="Treat every edge as two directed edges, one in each direction, and apply these steps to them in order:",
    ),
)
RULES = (
    Rule(
        "Drop the edges with a weight above $w.",
        "edges = [e for e in edges if e[2] <= $w]",
        ("edges = [e for e in edges if e[2] < $w]", "edges = [e for e in edges if e[2] > $w]"),
        {"w": integer(5, 8)},
        once=True,
    ),
    Rule(
        "Add $w to the weight of every edge.", "edges = [(a, b, w + $w) for a, b, w in edges]", slots={"w": integer(1, 5, 1)}
    ),
    Rule("Reverse the direction of every edge.", "edges = [(b, a, w) for a, b, w in edges]", ("edges = edges[::-1]",)),
    Rule(
        "Drop the edges into or out of node $k.",
        "edges = [e for e in edges if $k not in e[:2]]",
        ("edges = [e for e in edges if e[0] != $k]", "edges = [e for e in edges if $k not in e]"),
        {"k": integer(0, 3)},
        once=True,
    ),
    Rule("Drop the edges from a node to itself.", "edges = [e for e in edges if e[0] != e[1]]", once=True),
    Rule(
        "Add an edge of weight $w from every node to the next one (from 0 to 1, from 1 to 2, and so on, but not from "
        "the last).",
        "edges = edges + [(i, i + 1, $w) for i in range(n - 1)]",
        (
            "edges = edges + [(i, (i + 1) % n, $w) for i in range(n)]",
            "edges = edges + [(i + 1, i, $w) for i in range(n - 1)]",
        ),
        {"w": integer(2, 9)},
        once=True,
    ),
    Rule(
        "Of edges with the same start and the same end, keep only one with the smallest weight.",
        "edges = [(a, b, min(w for c, d, w in edges if (c, d) == (a, b))) for a, b in sorted({e[:2] for e in edges})]",
        ("edges = [(a, b, max(w for c, d, w in edges if (c, d) == (a, b))) for a, b in sorted({e[:2] for e in edges})]",),
        once=True,
    ),
    Rule(
        "Multiply by $m the weight of every edge from a lower-numbered node to a higher-numbered one.",
        "edges = [(a, b, w * $m if a < b else w) for a, b, w in edges]",
        ("edges = [(a, b, w * $m if a > b else w) for a, b, w in edges]", "edges = [(a, b, w * $m) for a, b, w in edges]"),
        {"m": integer(2, 4)},
    ),
    Rule(
        "Drop the edges whose two node numbers have an odd sum.",
        "edges = [e for e in edges if (e[0] + e[1]) % 2 == 0]",
        ("edges = [e for e in edges if (e[0] + e[1]) % 2]",),
        once=True,
    ),
)
BELLMAN = (
    "best = {$a: 0}\nfor _ in range(n):\n    for a, b, w in edges:\n"
    "        if a in best and best[a] + w < best.get(b, 10 ** 9):\n"
    "            best[b] = best[a] + w\n"
)
REACH = (
    "seen, queue = {$a}, [$a]\nfor a in queue:\n    for c, b, w in edges:\n        if c == a and b not in seen:\n"
    "            seen.add(b)\n            queue.append(b)\n"
)
STEPS = (
    "far, ring = {$a: 0}, [$a]\nwhile ring:\n    ring = sorted({b for a, b, w in edges if a in ring and b not in far})\n"
    "    for b in ring:\n        far[b] = max(far.values()) + 1 if b == ring[0] else far[ring[0]]\n"
)
PARTS = (
    "parts = [{i} for i in range(n)]\nfor a, b, w in edges:\n    one = next(p for p in parts if a in p)\n"
    "    two = next(p for p in parts if b in p)\n    if one is not two:\n        parts.remove(two)\n        one |= two\n"
)
ENDS = (
    Rule(
        "the smallest sum of weights along a path from node $a to node $b, or -1 if there is no path (0 if they are "
        "the same node).",
        BELLMAN + "return best.get($b, -1)",
        (STEPS + "return far.get($b, -1)", "return min((w for a, b, w in edges if (a, b) == ($a, $b)), default=-1)"),
        {"a": integer(0, 1), "b": integer(2, 2)},
    ),
    Rule(
        "the sorted list of the nodes that can be reached from node $a, including $a itself.",
        REACH + "return sorted(seen)",
        (REACH + "return sorted(seen - {$a})", "return sorted({$a} | {b for a, b, w in edges if a == $a})"),
        {"a": integer(0, 2)},
    ),
    Rule(
        "a dictionary from each node that can be reached from node $a to the smallest number of edges on a path to "
        "it (0 for $a itself).",
        STEPS + "return far",
        (BELLMAN + "return best", REACH + "return {node: place for place, node in enumerate(queue)}"),
        {"a": integer(0, 2)},
    ),
    Rule(
        "the number of connected components, where an edge in either direction connects two nodes.",
        PARTS + "return len(parts)",
        ("return n - len({e[:2] for e in edges})", "return n - len({a for a, b, w in edges})"),
    ),
    Rule(
        "a list with the number of outgoing edges of each node, starting with node 0.",
        "return [sum(a == i for a, b, w in edges) for i in range(n)]",
        (
            "return [sum(b == i for a, b, w in edges) for i in range(n)]",
            "return [len({b for a, b, w in edges if a == i}) for i in range(n)]",
        ),
    ),
    Rule(
        "whether the graph has a cycle: a path of at least one edge from a node back to itself.",
        "ends = {e[:2] for e in edges}\nfor _ in range(n):\n"
        "    ends |= {(a, d) for a, b in ends for c, d in ends if b == c}\n"
        "return any(a == b for a, b in ends)",
        ("return any((b, a) in {e[:2] for e in edges} for a, b, w in edges)", "return any(a == b for a, b, w in edges)"),
    ),
    Rule(
        "the total weight of a minimum spanning forest, where the direction of the edges does not matter.",
        "edges = sorted(edges, key=lambda e: e[2])\ntotal = 0\n"
        + PARTS.replace("parts.remove(two)", "total += w\n        parts.remove(two)")
        + "return total",
        (
            "total = 0\n" + PARTS.replace("parts.remove(two)", "total += w\n        parts.remove(two)") + "return total",
            "return sum(w for a, b, w in edges)",
        ),
    ),
    Rule(
        "the sorted list of tuples (a, b, c) of nodes with a < b < c in which every two nodes are connected by an "
        "edge in either direction.",
        "pairs = {frozenset(e[:2]) for e in edges}\n"
        "return [(a, b, c) for a in range(n) for b in range(a + 1, n) for c in range(b + 1, n)"
        " if {frozenset((a, b)), frozenset((b, c)), frozenset((a, c))} <= pairs]",
        (
            "pairs = {e[:2] for e in edges}\nreturn [(a, b, c) for a in range(n) for b in range(a + 1, n) for "
            "c in range(b + 1, n)"
            " if {(a, b), (b, c), (a, c)} <= pairs]",
            "pairs = {frozenset(e[:2]) for e in edges}\n"
            "return [(a, b, c) for a in range(n) for b in range(a + 1, n) for c in range(b + 1, n)"
            " if {frozenset((a, b)), frozenset((b, c))} <= pairs]",
        ),
    ),
)
FAMILY = ProgramFamily(
    "graphs", FRAMES, typed("edges", RULES), typed("edges", ENDS), names=("explore", "route", "network", "survey", "links")
)
