"""Task families about archives: extracting nested archives, and creating archives."""

import hashlib
import io
import tarfile
import zipfile

from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, sample, shuffled
from agentgym.envs.terminal.stored import gzipped
from agentgym.envs.terminal.tree import LONG_AGO, Entry, file
from agentgym.envs.terminal.words import lines, names, number, numbered, path

KINDS = ("tar.gz", "zip", "tar")
LARGEST = 200_000
"""Approximate maximum size of a decoy archive, in bytes."""


def _packed(kind: str, files: dict[str, bytes]) -> bytes:
    """Return an archive of the files; equal files give equal bytes."""
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in files.items():
                member = zipfile.ZipInfo(name, (2024, 1, 1, 10, 0, 0))
                member.create_system = 3  # Unix on every machine
                archive.writestr(member, content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), LONG_AGO
            archive.addfile(member, io.BytesIO(content))
    return gzipped(buffer.getvalue()) if kind == "tar.gz" else buffer.getvalue()


def _decoy(fill: Rng, name: str, size: int) -> tuple[bytes, str]:
    """Return a decoy archive of about half to twice `size` bytes, up to `LARGEST`, and its file extension."""
    target_size = min(round(size * 2 ** float(fill.uniform(-1, 1))), LARGEST)
    text = lines(fill, 1)
    kind = pick(fill, KINDS)
    return _packed(kind, {name: (text * max(1, (target_size - 600) // len(text))).encode()}), kind


def _aside(fill: Rng) -> str:
    """Return the name of a random folder with a trailing slash, or an empty string."""
    return path(fill, number(fill, 0, 1))


@family("unpack")
def unpack(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: extract one file from nested archives with other files of the same name."""
    target, out = f"{numbered(ask)}.txt", f"{numbered(ask, 'found')}.txt"
    place = pick(ask, ("final", "approved", "signed"))
    depth = 2 + min(level, 12)
    goal = lines(fill, 3).encode()
    inner = {f"{stem}/{target}": lines(fill, 3).encode() for stem in ("draft", "old", f"{place}-not")}
    inner = {**inner, f"{place}/{target}": goal, f"{place}/{numbered(fill)}.txt": b"other\n"}
    for step in range(depth):
        kind = pick(fill, KINDS)
        packed = _packed(kind, inner)
        size = len(packed) if step >= depth - 3 else 0  # deeper decoys would double the archive's size per level
        other, ending = _decoy(fill, f"{numbered(fill)}.txt", size)
        first, second = names(fill, 2)
        inner = {f"{_aside(fill)}{first}.{kind}": packed, f"{_aside(fill)}{second}.{ending}": other}
        inner = {name: inner[name] for name in shuffled(fill, list(inner))}
        inner[f"draft/{target}"] = lines(fill, 2).encode()
    top = numbered(ask)
    tree: dict[str, Entry] = {f"{top}/{name}": file(content) for name, content in inner.items()}
    size = max(len(content) for content in inner.values())
    for name in names(fill, level):  # decoys with the name in another folder
        content, ending = _decoy(fill, f"old/{target}", size)
        tree[f"{top}/{_aside(fill)}{name}.{ending}"] = file(content)

    def check(final: Final) -> Checks:
        yield f"{out} holds what was packed", final.content(out) == goal

    loop = (
        f"rm -rf /tmp/all; cp -r {top} /tmp/all; cd /tmp/all\n"
        "while f=$(find . -type f \\( -name '*.tar.gz' -o -name '*.zip' -o -name '*.tar' \\) | head -1); [ -n \"$f\" ]; do\n"
        '  mkdir -p "$f.d"\n'
        '  case $f in *.zip) python3 -m zipfile -e "$f" "$f.d";; *) tar xf "$f" -C "$f.d";; esac\n'
        '  rm -- "$f"\ndone\n'
    )
    copy = "cp \"$(find . -path '*/{}/{}' | head -1)\" ~1/{}"
    here = "here=$PWD\n"

    def take(pattern: str) -> str:
        return here + loop + copy.format(pattern, target, out).replace("~1", '"$here"') + '\ncd "$here"'

    return Scenario(
        f"Somewhere in `{top}`, in archives that hold archives (.tar.gz, .zip and .tar), there is a file "
        f"`{target}` that lies in a "
        f"folder named `{place}`. There is only one such file. Write its content to `{out}`. Leave `{top}` as it is.",
        tree,
        (take(place),),
        {
            "another folder": (take("draft"),),
            "the first of that name": (f"cp $(find {top} -name {target} | head -1) {out}",),
            "the archive itself": (f"cp $(find {top} -type f -name '*.*' | grep -v {target} | head -1) {out}",),
        },
        check,
        look=(f"find {top} -type f | sort",),
        show=(f"cat {out}",),
        changes=(out,),
        answers=(goal.decode(),),
    )


@family("backup")
def backup(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: archive a folder without excluded names; similar names must be included."""
    top, out = numbered(ask), f"{numbered(ask, 'backup')}.tar.gz"
    ending = pick(ask, ("log", "tmp", "bak"))
    skipped = sample(ask, ("cache", "build", "vendor", "dist"), 1 + min(level, 2))
    tree, expected = dict[str, Entry](), dict[str, bytes]()

    def put(name: str, included: bool) -> None:
        entry = tree[f"{top}/{name}"] = file(lines(fill, 1))
        if included:
            expected[f"{top}/{name}"] = entry.content

    for name in names(fill, 6 + 4 * level):
        put(f"{path(fill, number(fill, 0, 1 + level))}{name}.txt", True)
    for folder in skipped:
        put(f"{path(fill, number(fill, 0, level))}{folder}/{numbered(fill)}.txt", False)
        put(f"{folder}/{path(fill, 1)}{numbered(fill)}.txt", False)
        put(f"{folder}-notes/{numbered(fill)}.txt", True)
        put(f"{numbered(fill)}-{folder}.txt", True)
    put(f"{path(fill, 1)}{numbered(fill)}.{ending}", False)
    put(f"{numbered(fill)}.{ending}", False)
    put(f"{numbered(fill)}.{ending}.txt", True)
    put(f".{numbered(fill)}", True)

    def check(final: Final) -> Checks:
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in expected.items()}
        yield f"{out} holds the right files", _members(final, out) == sums

    folders = " ".join(f"--exclude={folder}" for folder in skipped)
    folders_text = " or ".join(f"`{folder}`" for folder in skipped)
    return Scenario(
        f"Make `{out}`, a tar archive compressed with gzip, of all files in `{top}` and below, hidden ones "
        "too, except those whose "
        f"names end in `.{ending}` and everything in a folder named {folders_text} (at any depth). Paths in the "
        "archive begin with "
        f"`{top}/`.",
        tree,
        (f"tar czf {out} --exclude='*.{ending}' {folders} {top}",),
        {
            "everything": (f"tar czf {out} {top}",),
            "paths without the folder": (f"tar czf {out} -C {top} --exclude='*.{ending}' {folders} .",),
            "whatever resembles the names": (f"tar czf {out} --exclude='*{ending}*' --exclude='*{skipped[0]}*' {top}",),
            "not packed": (f"tar cf {out} --exclude='*.{ending}' {folders} {top}",),
        },
        check,
        look=(f"find {top} | sort",),
        show=(f"tar tzf {out} | sort",),
        changes=(out,),
    )


def _members(final: Final, archive: str) -> dict[str, str] | None:
    """Return the SHA-256 hashes of the files in a gzip-compressed tar archive by path; None for any other file.

    A sandbox reads the archive, because an agent's archive may decompress to any size.
    """
    printed = final.prints(f"python3 -I -c '{_LIST}' {archive}")
    members: dict[str, str] = {}
    for line in (printed or "").splitlines():
        content, _, name = line.partition(" ")
        members[name.removeprefix("./")] = content
    return None if printed is None else members


_LIST = """
import hashlib, sys, tarfile
with tarfile.open(sys.argv[1], "r:gz") as archive:
    for member in archive:
        if member.isreg():
            print(hashlib.sha256(archive.extractfile(member).read()).hexdigest(), member.name)
"""
