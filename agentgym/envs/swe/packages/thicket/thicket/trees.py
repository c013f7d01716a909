"""Trees."""

from thicket.paths import breadth_first


class UnionFind:
    """Sets that grow together."""

    def __init__(self, items=()):
        self._parent = {}
        self._size = {}
        for item in items:
            self.add(item)

    def add(self, item):
        """Add an item as a set of its own."""
        if item not in self._parent:
            self._parent[item] = item
            self._size[item] = 1

    def find(self, item):
        """Return what stands for the set of an item."""
        root = item
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[item] != root:
            self._parent[item], item = root, self._parent[item]
        return root

    def union(self, one, two):
        """Join the sets of two items, and return whether they were different; the larger one's stands for both."""
        one, two = self.find(one), self.find(two)
        if one == two:
            return False
        if self._size[one] < self._size[two]:
            one, two = two, one
        self._parent[two] = one
        self._size[one] += self._size[two]
        return True

    def connected(self, one, two):
        """Whether two items are in one set."""
        return self.find(one) == self.find(two)

    def size(self, item):
        """Return how many items are in the set of one."""
        return self._size[self.find(item)]

    def groups(self):
        """Return the sets, in the order of their first items."""
        found = {}
        for item in self._parent:
            found.setdefault(self.find(item), []).append(item)
        return list(found.values())


def spanning_tree(graph, largest=False):
    """Return (weight, edges) of the spanning tree, or forest, of least weight; of most with `largest` (Kruskal)."""
    joined = UnionFind(graph)
    total, kept = 0, []
    for source, target, weight in sorted(graph.edges(), key=lambda edge: edge[2], reverse=largest):
        if joined.union(source, target):
            total += weight
            kept.append((source, target, weight))
    return total, kept


def tree_parents(graph, root):
    """Return node -> parent of a tree, the root's being None; ValueError where it is no tree."""
    parents = {root: None}
    left = [root]
    while left:
        node = left.pop()
        for neighbour in graph.neighbours(node):
            if neighbour == parents[node]:
                continue
            if neighbour in parents:
                raise ValueError("no tree: there is a cycle")
            parents[neighbour] = node
            left.append(neighbour)
    if len(parents) < len(graph):
        raise ValueError("no tree: it falls into parts")
    return parents


def common_ancestor(graph, root, one, two):
    """Return the node furthest from the root that both nodes descend from; a node descends from itself."""
    parents = tree_parents(graph, root)
    above = set()
    node = one
    while node is not None:
        above.add(node)
        node = parents[node]
    node = two
    while node not in above:
        node = parents[node]
    return node


def diameter(graph):
    """Return (steps, one end, other end) of the longest path of a tree."""
    start = next(iter(graph))
    steps = breadth_first(graph, start)
    one = max(steps, key=steps.get)
    steps = breadth_first(graph, one)
    two = max(steps, key=steps.get)
    return steps[two], one, two
