"""Candidate bugs in order: reverted hunks of an older version, single mutations, then combinations."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.core.seeding import generator
from agentgym.envs.swe.maker.edits import hunks, lines_of
from agentgym.envs.swe.maker.mutate import Mutation, mutations, sources


@dataclass(frozen=True)
class Candidate:
    """A candidate bug."""

    kind: str
    places: tuple[str, ...]
    """Changed places: functions (`PATH:NAME`), a line of a hunk (`PATH:NUMBER`, from 0) or whole files (`PATH`)."""
    files: Mapping[str, bytes]
    """New content of each changed file, by path."""
    bugs: int = 1
    parts: tuple[Mutation, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """Hash of the changed files, the same in every process."""
        digest = hashlib.sha256()
        for path in sorted(self.files):
            digest.update(f"{path}\0".encode() + self.files[path])
        return digest.hexdigest()[:16]


def single(tree: Mapping[str, bytes], seed: int) -> Iterator[Candidate]:
    """Yield each mutation of a repository as a candidate."""
    for mutation in mutations(tree, seed):
        yield Candidate(mutation.operator, (mutation.place,), {mutation.path: mutation.content}, 1, (mutation,))


def combined(singles: Sequence[Candidate], bugs: int, seed: int) -> Iterator[Candidate]:
    """Yield combinations of `bugs` mutations, each in a different function."""
    mutants = [mutant for mutant in singles if len(mutant.parts) == 1]
    rng = generator("swe", "combined", bugs, seed)
    seen: set[tuple[int, ...]] = set()
    for _ in range(20 * len(mutants) ** 2 if len(mutants) >= bugs else 0):
        places = tuple(sorted(int(place) for place in rng.permutation(len(mutants))[:bugs]))
        parts = [mutants[place] for place in places]
        if places not in seen and len({mutant.places for mutant in parts}) == bugs:
            seen.add(places)
            yield _joined([mutant.parts[0] for mutant in parts])


def reverted(tree: Mapping[str, bytes], older: Mapping[str, bytes]) -> Iterator[Candidate]:
    """Yield reversions to an older version: single hunks and whole files, file by file, then all files at once."""
    whole: dict[str, bytes] = {}
    sizes: list[int] = []
    for path in sources(tree):
        if path not in older or older[path] == tree[path]:
            continue
        try:
            new, old = lines_of(tree[path].decode("utf-8")), lines_of(older[path].decode("utf-8"))
        except UnicodeDecodeError:
            continue
        changed_hunks = hunks(new, old)
        for start, end, old_start, old_end in changed_hunks:
            content = "".join(new[:start] + old[old_start:old_end] + new[end:]).encode()
            if _compiles(path, content):
                yield Candidate("reverted hunk", (f"{path}:{start}",), {path: content})
        if len(changed_hunks) > 1 and _compiles(path, older[path]):
            yield Candidate("reverted file", (path,), {path: older[path]}, len(changed_hunks).bit_length())
        whole[path] = older[path]
        sizes.append(len(changed_hunks))
    if len(whole) > 1:
        yield Candidate("reverted version", tuple(whole), whole, sum(sizes).bit_length())


def _joined(parts: Sequence[Mutation]) -> Candidate:
    files: dict[str, bytes] = {}
    for path in {part.path for part in parts}:
        content = next(part.code.raw for part in parts if part.path == path)
        for part in sorted(
            (same_file for same_file in parts if same_file.path == path), key=lambda later: -later.splice.start
        ):
            content = content[: part.splice.start] + part.splice.text.encode() + content[part.splice.end :]
        files[path] = content
    kind = "+".join(sorted(each_part.operator for each_part in parts))
    return Candidate(kind, tuple(each_part.place for each_part in parts), files, len(parts), tuple(parts))


def _compiles(path: str, content: bytes) -> bool:
    try:
        compile(content, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
