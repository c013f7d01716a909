"""Learners, which store and update the weights: in this process, sharded over several processes, or on a server."""
