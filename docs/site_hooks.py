"""Hooks of the site's builder: links that leave the site become plain text, and nothing is fetched from elsewhere."""

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
WORKER = "https://unpkg.com/iframe-worker/shim"
"""What the search of a folder of files would fetch; `images/search_in_a_frame.js` does it here."""


def on_post_page(output: str, page: object, **_: object) -> str:
    """Return a page that takes the search's script from the site itself; RuntimeError if it loads from elsewhere."""
    folder = Path(page.file.dest_uri).parent  # type: ignore[attr-defined]
    output = output.replace(WORKER, os.path.relpath("images/search_in_a_frame.js", folder))
    if found := re.search(r"<(?:script|img|iframe)[^>]+src=\"https?:[^>]*>|<link[^>]+stylesheet[^>]+https?:[^>]*>", output):
        raise RuntimeError(f"{page.file.dest_uri} loads {found[0]}: keep it in the site")  # type: ignore[attr-defined]
    return output


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Return a page's text with each link pointing into the site, or replaced by its text."""
    place = DOCS / page.file.src_uri  # type: ignore[attr-defined]
    if place.is_relative_to(DOCS / "made"):  # the search lists guides before measurements and generated pages
        page.meta["search"] = {"boost": 0.3}  # type: ignore[attr-defined]
    if page.is_homepage:  # type: ignore[attr-defined]
        page.meta["hide"] = ["navigation"]  # type: ignore[attr-defined]
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
