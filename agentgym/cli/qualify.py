"""Test what a Tinker API server computes, and decide whether it is fit for training.

agentgym qualify tinker:http://127.0.0.1:8000 --model runs/policy      a table; exit code 1 if it is not fit
agentgym qualify tinker:http://127.0.0.1:8000 --model runs/policy --json   the same for a program
"""

# transformers is only partly typed
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from agentgym.cli.train import need_training, quiet
from agentgym.core.screen import announce
from agentgym.errors import BadConfig
from agentgym.options import Positional


@dataclass(frozen=True)
class Config:
    """Options of `agentgym qualify`."""

    server: Positional[str]
    """The server, as tinker:URL."""
    model: str = ""
    """Folder or hub name of the model that the server trains. Its tokenizer is used, and its results in torch on this
    machine are compared with the server's. By default the model that the server names."""
    base: str = ""
    """The server's name for the model, if the server has several models."""
    rank: int = 8
    """Rank of the adapters to try."""
    seconds: float = 1800.0
    """Time limit in seconds for a response."""
    json: bool = False
    """Print the findings as JSON."""


def run(config: Config) -> int:
    """Test the server and print the table; return 1 if it is not fit.

    Raises:
        BadConfig: the server is not tinker:URL.
    """
    kind, _, url = config.server.partition(":")
    if kind != "tinker" or not url:
        raise BadConfig(f"qualify {config.server!r}: expected tinker:URL, for example tinker:http://127.0.0.1:8000")
    need_training()
    announce(f"asking {url} what it computes; loading transformers")
    quiet()
    from transformers import AutoTokenizer

    from agentgym.trainers.learners.tinker.qualify import qualify
    from agentgym.trainers.learners.tinker.service import Service

    service = Service(url, seconds=config.seconds)
    try:
        base = service.base_model(config.base)
        model = config.model or base
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        qualified = qualify(service, base, model, tokenizer, rank=config.rank)
    finally:
        service.close()
    reasons = qualified.refused()
    if config.json:
        print(json.dumps({**asdict(qualified), "fit": not reasons}, indent=2))
        return 1 if reasons else 0
    table = Table(title=f"{url}, model {base}", title_justify="left")
    for column in ("what", "verdict", "found"):
        table.add_column(column)
    for what, text, verdict in qualified.findings:
        table.add_row(what, verdict, text)
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print(f"not fit to train on: {'; '.join(reasons)}" if reasons else "fit to train on")
    return 1 if reasons else 0
