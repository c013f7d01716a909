"""Learners hold the weights and update them: in this process, sharded over several, or on a server."""
