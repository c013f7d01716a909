"""The type of a field that holds options of something chosen by name: an environment, a credit algorithm."""

from typing import Annotated

import tyro

Options = Annotated[dict[str, object], tyro.conf.Suppress]
"""A field `NAME_options` of a command's dataclass collects the flags `--NAME.KEY VALUE`."""
