"""Index folders: built once and atomically, and verified when opened.

A folder has `index.json` (its kind and corpus), `documents.sqlite` (`Store`) and the files of its kind. It is built in
`FOLDER.partial` and renamed at the very end. The next build resumes an interrupted one from there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym.core.folders import write_whole
from agentgym.errors import BadConfig, BadData
from agentgym.retrieval.documents import ANALYSER, read_documents
from agentgym.retrieval.store import Store, write_store
from agentgym.tasks.lines import find_file

FORMAT = 1
MANIFEST, STORE = "index.json", "documents.sqlite"
Progress = Callable[[str, int, int | None], None]
"""Callback with the current phase, the number of documents done, and their total (None: unknown)."""
Fill = Callable[[Path, Store, Callable[[int], None]], Mapping[str, object]]
"""Writes the files of one kind of index to a folder, and returns additional entries for the manifest.

The arguments are the folder, the documents, and a callback for the number of documents done.
"""


def silent(what: str, done: int, total: int | None) -> None:
    """Report no progress."""


def build(
    kind: str, corpus: str, folder: str | Path, fill: Fill, options: Mapping[str, object], progress: Progress
) -> dict[str, Any]:
    """Build the index folder of a corpus, or reuse an existing one, and return its manifest.

    If several processes build the same folder, one builds it and the others wait.

    Raises:
        BadConfig: the folder has other content, or an index of another corpus, kind or options.
        BadData: the corpus cannot be read.
    """
    target, source = Path(folder), find_file(corpus)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _turn(target):
        if (target / MANIFEST).exists():
            manifest = read_manifest(target, kind)
            check_corpus(manifest, target, str(source))
            _check_options(manifest, target, options)
            return manifest
        if target.exists() and any(target.iterdir()):
            raise BadConfig(f"{target} holds something that is not an index; give an empty or a new folder")
        identity = {"format": FORMAT, "kind": kind, "analyser": ANALYSER, "corpus": _identity(source), "options": options}
        partial = _partial(target, identity)
        if not (partial / STORE).exists():
            documents = (document for _, document in read_documents(str(source)))
            write_store(partial / STORE, documents, str(source), lambda done: progress("reading documents", done, None))
        store = Store(partial / STORE)
        added = fill(partial, store, lambda done: progress("indexing", done, store.size))
        manifest = {**identity, "documents": store.size, **added}
        write_whole(partial / MANIFEST, json.dumps(manifest, indent=2))
        _sync(partial)
        partial.rename(target)
        return manifest


def read_manifest(folder: Path, kind: str | None = None) -> dict[str, Any]:
    """Return the manifest of an index folder.

    Raises:
        BadConfig: the folder is not an index, or has another kind, format or analyzer.
        BadData: the manifest is malformed.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        marks = (manifest["format"], manifest["analyser"])
        kinds, documents = manifest["kind"], manifest["documents"]
    except FileNotFoundError:
        hint = f"make it: agentgym index CORPUS.jsonl {folder}" + (f" --kind {kind}" if kind else "")
        unfinished = f" ({folder}.partial is an unfinished one)" if _named(folder, ".partial").exists() else ""
        raise BadConfig(f"there is no index at {folder}{unfinished}; {hint}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BadData(f"{folder / MANIFEST}: {error!r}; expected what `agentgym index` wrote") from error
    if kind is not None and kinds != kind:
        raise BadConfig(f"{folder} is an index of kind {kinds!r}, not {kind!r}: say {kinds}:{folder}")
    if marks != (FORMAT, ANALYSER):
        raise BadConfig(f"{folder} has format and analyser {marks}; expected {(FORMAT, ANALYSER)}: make the index again")
    if not isinstance(documents, int) or documents < 1:
        raise BadData(f"{folder / MANIFEST}: documents is {documents!r}; expected how many there are")
    return manifest


def kind_of(folder: str | Path) -> str | None:
    """Return the kind of index in a folder, or None if it has no `index.json`; raise BadConfig or BadData for a bad one."""
    path = Path(folder).expanduser()
    return read_manifest(path)["kind"] if (path / MANIFEST).exists() else None


def open_store(folder: Path, manifest: Mapping[str, object]) -> Store:
    """Return the documents of an index.

    Raises:
        BadData: the file is missing, or has a different number of documents than the manifest.
    """
    if not (folder / STORE).exists():
        raise BadData(f"{folder / STORE} is missing; make the index again")
    store = Store(folder / STORE)
    if store.size != manifest["documents"]:
        raise BadData(
            f"{folder / STORE} holds {store.size} documents, index.json says {manifest['documents']}; make it again"
        )
    return store


def check_corpus(manifest: Mapping[str, Any], folder: Path, corpus: str) -> None:
    """Check that the index was built from this corpus; the file is read only if just its modification time differs.

    Raises:
        BadConfig: the index was built from another corpus.
    """
    known, file = manifest["corpus"], find_file(corpus)
    status = file.stat()
    if (known["bytes"], known["mtime_ns"]) == (status.st_size, status.st_mtime_ns):
        return
    if known["bytes"] != status.st_size or known["digest"] != _digest(file):
        raise BadConfig(
            f"{folder} is the index of another corpus ({known['name']}) than {file}: build one in another folder"
        )


def _check_options(manifest: Mapping[str, Any], folder: Path, options: Mapping[str, object]) -> None:
    if manifest["options"] != options:
        changed = {name: manifest["options"].get(name) for name in options if manifest["options"].get(name) != options[name]}
        raise BadConfig(f"{folder} was made with {changed}, not with {options}: give these, or build in another folder")


def _identity(source: Path) -> dict[str, object]:
    status = source.stat()
    return {"name": source.name, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "digest": _digest(source)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _partial(target: Path, identity: Mapping[str, object]) -> Path:
    """Return the folder to build in: the remains of an earlier build of the same index, or a new folder.

    The remains of a build of another index are deleted.

    Raises:
        BadConfig: the folder has content that no build left.
    """
    partial, label = _named(target, ".partial"), json.dumps(identity, indent=2)
    mark = partial / "building.json"
    if partial.exists() and (not mark.exists() or mark.read_text(encoding="utf-8") != label):
        if not mark.exists() and any(partial.iterdir()):
            raise BadConfig(f"{partial} holds something that no build left; remove it, or build in another folder")
        shutil.rmtree(partial)
    partial.mkdir(exist_ok=True)
    write_whole(mark, label)
    return partial


@contextmanager
def _turn(target: Path) -> Generator[None]:
    """Lock the folder for building, if the system can, after waiting for other processes; a process that dies unlocks it."""
    with _named(target, ".lock").open("a") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):  # Windows and file systems without locks: the user must avoid parallel builds
            pass
        yield


def _named(target: Path, ending: str) -> Path:
    return target.with_name(target.name + ending)


def _sync(folder: Path) -> None:
    """Flush the files of a folder to disk before it is renamed, so that the final name never points to a partial index."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
