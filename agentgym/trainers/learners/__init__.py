"""Learners, which hold and update the weights: in this process, sharded over several, or on a server."""
