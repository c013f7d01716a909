"""Task files in JSON Lines: one line per repository, and one line per task."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.envs.swe.tasks import source as sources
from agentgym.envs.swe.tasks.instance import Edit, Instance, Repository
from agentgym.errors import BadData
from agentgym.tasks.columns import RefusedRow, refuse_unread
from agentgym.tasks.lines import objects
from agentgym.tasks.reading import PLAIN, Reading, playable

EMBEDDED = Path(__file__).with_name("tasks.jsonl")
"""File of the built-in tasks."""
_REPOSITORY = ("repository", "source", "digest", "split", "tests", "conftest")
_TASK = ("id", "of", "issue", "bug", "fail_to_pass", "excluded", "kind", "difficulty", "seconds")
_KNOWN = frozenset(_TASK)


def read(path: str | Path = EMBEDDED, reading: Reading = PLAIN) -> list[Instance]:
    """Return the tasks of a file; `reading.strict` refuses malformed tasks, which are otherwise skipped and counted.

    A repository's source may be a path relative to the file. A file is always refused if the line of a repository is
    malformed, or if an unknown column that `reading.ignore` does not list contains text.
    """
    repositories: dict[str, Repository] = {}
    folder = Path(path).parent

    def instance(where: str, raw: Mapping[str, Any]) -> Instance:
        try:
            refuse_unread(raw, _KNOWN, reading.ignore, where)
            return _instance(raw, repositories)
        except KeyError as error:
            raise BadData(f"{where}: {error} is missing; expected {_expected(_TASK)}") from None
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(error, BadData):
                raise
            raise BadData(f"{where}: {error}; expected {_expected(_TASK)}") from None

    def tasks() -> Iterator[tuple[str, Mapping[str, Any]]]:
        for where, raw in objects(str(path)):
            if "repository" not in raw:
                yield where, raw
                continue
            try:
                repositories[str(raw["repository"])] = _repository(raw, folder)
            except KeyError as error:  # all tasks of the repository need it
                raise RefusedRow(f"{where}: {error} is missing; expected {_expected(_REPOSITORY)}") from None
            except (ValueError, TypeError) as error:
                raise RefusedRow(f"{where}: {error}; expected {_expected(_REPOSITORY)}") from None

    return list(playable(str(path), tasks(), instance, reading).values())


def write(path: str | Path, instances: Iterable[Instance]) -> None:
    """Write the repositories, then the tasks; the path of a source next to the file becomes relative.

    Raises:
        BadData: two repositories have the same name.
    """
    tasks = list(instances)
    folder = Path(path).resolve().parent
    repositories = {instance.package: instance.repository for instance in tasks}
    lines = [_repository_row(repository, folder) for _, repository in sorted(repositories.items())]
    for instance in tasks:
        if repositories[instance.package] != instance.repository:
            raise BadData(f"task {instance.id}: two different repositories are called {instance.package!r}")
        lines.append(_task(instance))
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _repository(row: Mapping[str, object], folder: Path) -> Repository:
    source = str(row["source"])
    if not source.startswith(sources.EMBEDDED):
        source = str(folder / source)
    tests = tuple(_strings(row["tests"]))
    return Repository(
        str(row["repository"]), source, str(row["digest"]), str(row["split"]), tests, bool(row.get("conftest", False))
    )


def _instance(row: Mapping[str, Any], repositories: Mapping[str, Repository]) -> Instance:
    repository = repositories.get(row["of"])
    if repository is None:
        raise ValueError(f"repository {row['of']!r} has no line before this one")
    fail_to_pass = tuple(_strings(row["fail_to_pass"]))
    unknown = set(fail_to_pass) - set(repository.tests)
    if not fail_to_pass or unknown:
        raise ValueError(f"fail_to_pass is {list(fail_to_pass)!r:.200}, which should be some tests of {repository.name!r}")
    others = {*fail_to_pass, *_strings(row.get("excluded", []))}
    return Instance(
        id=str(row["id"]),
        repository=repository,
        issue=str(row["issue"]),
        bug=_edits(row["bug"]),
        fail_to_pass=fail_to_pass,
        pass_to_pass=tuple(test for test in repository.tests if test not in others),
        kind=str(row["kind"]),
        difficulty=int(row["difficulty"]),
        seconds=float(row["seconds"]),
    )


def _edits(value: Any) -> tuple[Edit, ...]:
    return tuple(Edit(str(edit["path"]), str(edit["old"]), str(edit["new"])) for edit in value)


def _strings(value: object) -> list[str]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.80} is not a list of test ids")
    return [str(item) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _repository_row(repository: Repository, folder: Path) -> dict[str, object]:
    source = repository.source
    if not source.startswith(sources.EMBEDDED):
        place = Path(source).resolve()
        source = str(place.relative_to(folder)) if place.is_relative_to(folder) else str(place)
    conftest = {"conftest": True} if repository.conftest else {}
    return {
        "repository": repository.name,
        "source": source,
        "digest": repository.digest,
        "split": repository.split,
        **conftest,
        "tests": list(repository.tests),
    }


def _task(instance: Instance) -> dict[str, object]:
    tests = {*instance.fail_to_pass, *instance.pass_to_pass}
    excluded = [test for test in instance.repository.tests if test not in tests]
    row: dict[str, object] = {
        "id": instance.id,
        "of": instance.package,
        "kind": instance.kind,
        "difficulty": instance.difficulty,
        "seconds": round(instance.seconds, 2),
        "issue": instance.issue,
        "bug": [vars(edit) for edit in instance.bug],
        "fail_to_pass": list(instance.fail_to_pass),
    }
    if excluded:
        row["excluded"] = excluded
    return row


def _expected(fields: tuple[str, ...]) -> str:
    return f"an object with {', '.join(fields)}"
