"""Matching addresses to handlers, and making addresses."""

from waypost.negotiate import best_language, best_type, parse_accept
from waypost.patterns import Pattern, PatternError
from waypost.router import MethodNotAllowed, NotFound, Router
from waypost.urls import Url, join, normalize, parse_query

__all__ = [
    "MethodNotAllowed",
    "NotFound",
    "Pattern",
    "PatternError",
    "Router",
    "Url",
    "best_language",
    "best_type",
    "join",
    "normalize",
    "parse_accept",
    "parse_query",
]
