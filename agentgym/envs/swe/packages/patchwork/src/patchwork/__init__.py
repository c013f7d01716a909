"""Differences between texts: found, shown, applied, merged."""

from patchwork.apply import PatchError, apply_patch
from patchwork.config import ConfigError, dump_ini, load_ini
from patchwork.diff import Change, distance, longest_common, opcodes, similarity
from patchwork.merge import Conflict, merge
from patchwork.tables import TableError, read_table, write_table
from patchwork.unified import Hunk, hunks_of, parse_patch, unified

__all__ = [
    "Change",
    "ConfigError",
    "Conflict",
    "Hunk",
    "PatchError",
    "TableError",
    "apply_patch",
    "distance",
    "dump_ini",
    "hunks_of",
    "load_ini",
    "longest_common",
    "merge",
    "opcodes",
    "parse_patch",
    "read_table",
    "similarity",
    "unified",
    "write_table",
]
