"""What a maker tries, in order: hunks of an older version brought back, single mutations, then several at once."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.core.seeding import generator
from agentgym.envs.swe.maker.edits import hunks, lines_of
from agentgym.envs.swe.maker.mutate import Mutation, mutations, sources


@dataclass(frozen=True)
class Candidate:
    """A way to break a repository."""

    kind: str
    places: tuple[str, ...]
    """The functions, or files, that it changes."""
    files: Mapping[str, bytes]
    """The files that differ."""
    bugs: int = 1
    parts: tuple[Mutation, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """Hash of what it changes: the same in another run."""
        found = hashlib.sha256()
        for path in sorted(self.files):
            found.update(f"{path}\0".encode() + self.files[path])
        return found.hexdigest()[:16]


def single(tree: Mapping[str, bytes], seed: int) -> Iterator[Candidate]:
    """Yield the mutations of a repository."""
    for one in mutations(tree, seed):
        yield Candidate(one.operator, (one.place,), {one.path: one.content}, 1, (one,))


def combined(held: Sequence[Candidate], bugs: int, seed: int) -> Iterator[Candidate]:
    """Yield combinations of so many mutations, each in a function of its own."""
    mutants = [one for one in held if len(one.parts) == 1]
    rng = generator("swe", "combined", bugs, seed)
    seen: set[tuple[int, ...]] = set()
    for _ in range(20 * len(mutants) ** 2 if len(mutants) >= bugs else 0):
        places = tuple(sorted(int(place) for place in rng.permutation(len(mutants))[:bugs]))
        chosen = [mutants[place] for place in places]
        if places not in seen and len({one.places for one in chosen}) == bugs:
            seen.add(places)
            yield _joined([one.parts[0] for one in chosen])


def reverted(tree: Mapping[str, bytes], older: Mapping[str, bytes]) -> Iterator[Candidate]:
    """Yield what a version before this one had: single hunks, then whole files, then all of them."""
    whole: dict[str, bytes] = {}
    sizes: list[int] = []
    for path in sources(tree):
        if path not in older or older[path] == tree[path]:
            continue
        try:
            new, old = lines_of(tree[path].decode("utf-8")), lines_of(older[path].decode("utf-8"))
        except UnicodeDecodeError:
            continue
        found = hunks(new, old)
        for start, end, old_start, old_end in found:
            content = "".join(new[:start] + old[old_start:old_end] + new[end:]).encode()
            if _compiles(path, content):
                yield Candidate("reverted hunk", (f"{path}:{start}",), {path: content})
        if len(found) > 1 and _compiles(path, older[path]):
            yield Candidate("reverted file", (path,), {path: older[path]}, len(found).bit_length())
        whole[path] = older[path]
        sizes.append(len(found))
    if len(whole) > 1:
        yield Candidate("reverted version", tuple(whole), whole, sum(sizes).bit_length())


def _joined(parts: Sequence[Mutation]) -> Candidate:
    files: dict[str, bytes] = {}
    for path in {one.path for one in parts}:
        content = next(one.code.raw for one in parts if one.path == path)
        for one in sorted((one for one in parts if one.path == path), key=lambda one: -one.splice.start):
            content = content[: one.splice.start] + one.splice.text.encode() + content[one.splice.end :]
        files[path] = content
    kind = "+".join(sorted(one.operator for one in parts))
    return Candidate(kind, tuple(one.place for one in parts), files, len(parts), tuple(parts))


def _compiles(path: str, content: bytes) -> bool:
    try:
        compile(content, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
