"""A real browser over embedded sites: tasks that the sites' databases, or the answer, decide."""
