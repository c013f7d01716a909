"""Short functions for the database queries of the sites' pages."""

import sqlite3

from flask import abort

from agentgym.envs.web.sites.frame import db


def many(sql: str, *values: object) -> list[sqlite3.Row]:
    """Return all rows of a query; a number too large for SQLite ends the request with 404."""
    try:
        return db().execute(sql, values).fetchall()
    except OverflowError:
        abort(404)


def maybe(sql: str, *values: object) -> sqlite3.Row | None:
    """Return the first row of a query, or None if the query has no rows."""
    return next(iter(many(sql, *values)), None)


def one(sql: str, *values: object) -> sqlite3.Row:
    """Return the first row of a query; without any row the request ends with 404."""
    return maybe(sql, *values) or abort(404)


def run(sql: str, *values: object) -> int:
    """Execute a statement; after an INSERT, return the id of the new row."""
    return db().execute(sql, values).lastrowid or 0
