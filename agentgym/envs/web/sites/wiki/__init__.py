"""A wiki site: pages with facts, links, versions, categories, a watch list."""
