"""Judge the files that an agent left, and write the reward; `tests/test.sh` runs this in the verifier's image.

If the environment itself fails, no reward is written, and Harbor counts the trial as an error.
"""

import json
import sys
from pathlib import Path
from typing import Any

from agentgym.errors import BadData
from agentgym.integrations.harbor_tasks import task_file
from agentgym.integrations.harbor_tasks.kinds import NoSubmission, kind_of
from agentgym.integrations.harbor_tasks.task_file import REWARD, TaskFile
from agentgym.rollout.session import Session


def main(root: Path = Path("/")) -> int:
    """Judge, write the reward file and return 0; without a verdict, write nothing and return 1."""
    facts = task_file.read(_below(root, task_file.PLACE))
    try:
        reward = _of_service(_below(root, task_file.RESULTS)) if facts.served else _of_files(facts, root)
    except NoSubmission as nothing:
        print(nothing)
        reward = 0.0
    if reward is None:
        return 1
    place = _below(root, REWARD)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"reward": reward}) + "\n", encoding="utf-8")
    return 0


def _below(root: Path, place: Path) -> Path:
    return root / place.relative_to("/")


def _of_files(facts: TaskFile, root: Path) -> float | None:
    """Judge the agent's files and return the reward; None after an infrastructure error.

    Raises:
        BadData: the environment does not judge files.
    """
    options: dict[str, Any] = dict(facts.options)
    with Session(facts.env, **options) as session:
        kind = kind_of(session.env)
        if kind is None:
            raise BadData(f"{facts.env} has no files to judge")
        session.reset(facts.task, seed=facts.seed)
        if not session.done:
            print(session.act(kind.hand_in(session.env, root)))
        if session.reason is not None and session.success is None:
            print(f"no verdict: {session.reason}: {session.error}", file=sys.stderr)
            return None
        return session.reward  # 0 for an action that the environment did not accept


def _of_service(results: Path) -> float | None:
    """Return the reward of the episode that the service recorded; None after an infrastructure error.

    Raises:
        NoSubmission: the agent stopped before the episode ended.
    """
    try:
        rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        raise NoSubmission("the episode was not played to its end") from None
    if not rows:
        raise NoSubmission("the episode was not played to its end")
    print(f"{rows[-1]['turns']} turns, {rows[-1]['reason']}")
    return None if rows[-1]["success"] is None else float(rows[-1]["reward"])


if __name__ == "__main__":
    sys.exit(main())
