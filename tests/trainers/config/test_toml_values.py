"""Values as TOML are what the standard library's reader reads back."""

import tomllib

from agentgym.trainers.config.recipe_files import rows


def test_keys_and_strings_of_every_kind_are_read_back():
    values = {"é": "a\x7fb", "a b": '\x07"\\', "": "", "c-d_e": 1e-5, "n": {"ü": [True, "x", float("inf")]}}
    assert tomllib.loads("\n".join(rows(values))) == values
