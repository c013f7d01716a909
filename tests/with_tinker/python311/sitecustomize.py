"""Python reads this first in the processes of SkyRL's server: on 3.11, pydantic takes typed dicts only from this package."""

import typing

import typing_extensions

typing.TypedDict = typing_extensions.TypedDict
