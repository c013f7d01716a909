"""Hook of the site's builder: links that leave the site become plain text."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "results"
COPIES = DOCS / "made" / "results"
"""The pages of `results/`, as `docs/pictures.py` copies them into the site."""
MADE = re.compile(r"<!-- made by the docs build: (.*?) -->", re.DOTALL)
"""Links to pictures and pages that `docs/pictures.py` makes; only the site shows them."""
LINK = re.compile(r"(!?)\[([^][]*)\]\(([^()\s#:]+)(#[^()\s]*)?\)")


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Return a page's text with each link pointing into the site, or replaced by its text."""
    place = DOCS / page.file.src_uri  # type: ignore[attr-defined]
    origin = RESULTS / place.name if place.parent == COPIES else place

    def into_the_site(link: re.Match[str]) -> str:
        mark, text, path, anchor = link.groups(default="")
        target = Path(os.path.normpath(origin.parent / path))
        if target.parent == RESULTS and target.suffix == ".md":
            target = COPIES / target.name
        if not target.is_relative_to(DOCS):
            return text
        return f"{mark}[{text}]({os.path.relpath(target, place.parent)}{anchor})"

    return LINK.sub(into_the_site, MADE.sub(r"\1", markdown))
