"""Graphs with weights."""


class Graph:
    """Nodes and weighted edges, directed or not; nodes and neighbours keep the order they came in."""

    def __init__(self, edges=(), directed=False):
        self.directed = directed
        self._neighbours = {}
        for edge in edges:
            self.add(*edge)

    def add(self, source, target, weight=1):
        """Add an edge, and its nodes where they are new; an edge that is there gets the weight."""
        self.add_node(source)
        self.add_node(target)
        self._neighbours[source][target] = weight
        if not self.directed:
            self._neighbours[target][source] = weight

    def add_node(self, node):
        """Add a node."""
        self._neighbours.setdefault(node, {})

    def remove(self, source, target):
        """Remove an edge; KeyError where there is none."""
        del self._neighbours[source][target]
        if not self.directed and source != target:
            del self._neighbours[target][source]

    def remove_node(self, node):
        """Remove a node and all its edges; KeyError where it is not here."""
        del self._neighbours[node]
        for neighbours in self._neighbours.values():
            neighbours.pop(node, None)

    def __contains__(self, node):
        return node in self._neighbours

    def __len__(self):
        return len(self._neighbours)

    def __iter__(self):
        return iter(self._neighbours)

    def neighbours(self, node):
        """Return node -> weight of what can be reached from a node, as a dictionary of the caller's own."""
        return dict(self._neighbours[node])

    def weight(self, source, target, default=None):
        """Return the weight of an edge."""
        return self._neighbours.get(source, {}).get(target, default)

    def has_edge(self, source, target):
        """Whether there is an edge."""
        return target in self._neighbours.get(source, {})

    def edges(self):
        """Return (source, target, weight) of every edge; once each where the graph is not directed."""
        found, seen = [], set()
        for source, neighbours in self._neighbours.items():
            for target, weight in neighbours.items():
                if self.directed or (target, source) not in seen:
                    found.append((source, target, weight))
                    seen.add((source, target))
        return found

    def degree(self, node):
        """Return how many edges end at a node; both directions count, and a loop twice."""
        outward = len(self._neighbours[node])
        if not self.directed:
            return outward + (node in self._neighbours[node])
        inward = sum(node in neighbours for neighbours in self._neighbours.values())
        return outward + inward

    def reversed(self):
        """Return the graph with all edges turned round."""
        turned = Graph(directed=self.directed)
        for node in self._neighbours:
            turned.add_node(node)
        for source, target, weight in self.edges():
            turned.add(target, source, weight)
        return turned

    def subgraph(self, nodes):
        """Return the part of the graph between some nodes."""
        kept = set(nodes)
        part = Graph(directed=self.directed)
        for node in self._neighbours:
            if node in kept:
                part.add_node(node)
        for source, target, weight in self.edges():
            if source in kept and target in kept:
                part.add(source, target, weight)
        return part

    def copy(self):
        """Return a graph that changes apart from this one."""
        return self.subgraph(self._neighbours)
