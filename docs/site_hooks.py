"""What the site's builder asks of this folder: links out of it become plain text, for the site holds the pages alone."""

import re

MADE = re.compile(r"<!-- made by the docs build: (.*?) -->", re.DOTALL)
"""Pictures and pages that `docs/pictures.py` makes: links to them stand in the site alone."""
OUTSIDE = re.compile(r"\[([^][]+)\]\(\.\./[^()\s]+\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page with its links to other folders of the repository replaced by what they say."""
    return OUTSIDE.sub(r"\1", MADE.sub(r"\1", markdown))
