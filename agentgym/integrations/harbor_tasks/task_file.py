"""The task data that a folder's verifier and service read: a file in their images that no agent can read."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentgym.errors import BadData

PLACE = Path("/opt/agentgym/task.json")
"""Path of the task data in the images."""
RESULTS = Path("/result/episodes.jsonl")
"""Path of the result that the service writes when the episode is over."""
REWARD = Path("/logs/verifier/reward.json")
FORMAT = 1


@dataclass(frozen=True)
class TaskFile:
    """Everything that determines one episode: environment, task, seed and options."""

    env: str
    task: str
    seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    served: bool = False
    """True if a service plays the episode and the verifier reads its result; False if the verifier judges files."""
    format: int = FORMAT

    def text(self) -> str:
        """Return the task data as JSON. Raises ValueError or TypeError for options that JSON cannot represent."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def read(path: Path = PLACE) -> TaskFile:
    """Read the task data of this image.

    Raises:
        BadData: the file cannot be read, is malformed or has another format number.
    """
    try:
        facts = TaskFile(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadData(f"{path} is not a task that `agentgym export --as harbor` wrote: {error}") from None
    if facts.format != FORMAT:
        raise BadData(f"{path} has format {facts.format}; expected {FORMAT}")
    return facts
