"""Graphs: paths, orders, trees, flows."""

from thicket.flows import matching, max_flow, min_cut
from thicket.graph import Graph
from thicket.orders import CycleError, components, levels, strong_components, topological_order
from thicket.paths import NoPath, all_distances, bellman_ford, breadth_first, shortest_path
from thicket.trees import UnionFind, common_ancestor, diameter, spanning_tree, tree_parents

__all__ = [
    "CycleError",
    "Graph",
    "NoPath",
    "UnionFind",
    "all_distances",
    "bellman_ford",
    "breadth_first",
    "common_ancestor",
    "components",
    "diameter",
    "levels",
    "matching",
    "max_flow",
    "min_cut",
    "shortest_path",
    "spanning_tree",
    "strong_components",
    "topological_order",
    "tree_parents",
]
