"""A wiki: pages with facts, links, versions, categories, a watch list."""
