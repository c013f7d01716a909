"""One engine over several servers of the same model: routing, and what becomes of a server that fails or returns."""
