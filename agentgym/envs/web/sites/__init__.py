"""Embedded sites, one folder each: `data.py` (database), `app.py` and `templates/` (pages), `tasks.py` (families)."""

import importlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

if TYPE_CHECKING:
    from agentgym.envs.web.family import TaskFamily
    from agentgym.envs.web.state import Setting

SITES: dict[str, tuple[tuple[str, ...], str]] = {
    # folder: (hosts, description)
    "calendar": (("calendar.test",), "a calendar: month, week, day, events with attendees, invitations"),
    "mail": (("mail.test",), "mail: folders, search, reading, writing, contacts"),
    "tracker": (
        ("tracker.test",),
        "a project tracker: issues, labels, milestones, members, merge requests with diffs and reviews",
    ),
    "shop": (("shop.test",), "a shop: products, cart, orders, reviews, wish list, addresses"),
    "forum": (("forum.test",), "a forum: boards, topics, comments, votes, subscriptions, members"),
    "wiki": (("wiki.test",), "a wiki: pages with facts, links, versions, categories, a watch list"),
}
Wsgi = Callable[[dict[str, object], Callable[..., object]], Iterable[bytes]]


class SiteData(Protocol):
    """Interface of a site's `data.py`."""

    SCHEMA: str

    def fill(self, db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: "Setting") -> None:
        """Insert generated content into a database with the site's schema; `size`, from 0, sets the amount."""
        ...


def data_of(site: str) -> SiteData:
    """Return the module that fills a site's database."""
    return cast("SiteData", importlib.import_module(f"{__name__}.{site}.data"))


def apps() -> Mapping[str, Wsgi]:
    """Return the WSGI application of each host; needs the extra `web`.

    A request carries the state of its episode as `environ["agentgym.episode"]`.
    """
    applications: dict[str, Wsgi] = {}
    for site, (hosts, _) in SITES.items():
        app = cast("Wsgi", importlib.import_module(f"{__name__}.{site}.app").app)
        for host in hosts:
            applications[host] = app
    return applications


def families() -> "Mapping[str, TaskFamily]":
    """Return the task families of all sites by name."""
    by_name: dict[str, TaskFamily] = {}
    for module in (*(f"{site}.tasks" for site in SITES), "across"):
        for family in importlib.import_module(f"{__name__}.{module}").FAMILIES:
            by_name[family.name] = family
    return by_name
