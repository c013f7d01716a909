"""A git repository created without git, so that its objects are the same with every version of git."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.envs.terminal.stored import zlibbed
from agentgym.envs.terminal.tree import LONG_AGO, Entry, file, folder

AUTHORS = (("Ada Adler", "ada@example.org"), ("Ben Brandt", "ben@example.org"), ("Cleo Castro", "cleo@example.org"))
Files = Mapping[str, bytes]


@dataclass
class Repository:
    """Commits, branches and tags; `entries` returns the working folder."""

    branch: str = "main"
    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    refs: dict[str, str] = field(default_factory=dict[str, str])
    trees: dict[str, Files] = field(default_factory=dict[str, Files])
    """Files of each commit, by commit id."""

    def commit(self, files: Files, message: str, parents: Sequence[str] = (), branch: str | None = None) -> str:
        """Store a commit, move a branch to it and return its id; parents default to the branch's current commit."""
        branch = branch or self.branch
        before = parents or ([self.refs[f"refs/heads/{branch}"]] if f"refs/heads/{branch}" in self.refs else [])
        name, mail = AUTHORS[len(self.trees) % len(AUTHORS)]
        who = f"{name} <{mail}> {LONG_AGO - 86_400 * 200 + 40_000 * len(self.trees)} +0000"
        head = [f"tree {self._tree(files)}", *(f"parent {parent}" for parent in before), f"author {who}", f"committer {who}"]
        commit_id = self._store("commit", "\n".join([*head, "", message, ""]).encode())
        self.refs[f"refs/heads/{branch}"], self.trees[commit_id] = commit_id, dict(files)
        return commit_id

    def tag(self, name: str, commit: str) -> None:
        """Create a lightweight tag for a commit id."""
        self.refs[f"refs/tags/{name}"] = commit

    def tree_of(self, files: Files) -> str:
        """Return the id of the git tree for some files, without storing objects."""
        return Repository()._tree(files)

    def _tree(self, files: Files) -> str:
        here: dict[str, tuple[str, str]] = {}
        folders: dict[str, dict[str, bytes]] = {}
        for path, content in files.items():
            front, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(front, {})[rest] = content
            else:
                here[front] = "100644", self._store("blob", content)
        for name, inner in folders.items():
            here[name] = "40000", self._tree(inner)
        order = sorted(here.items(), key=lambda item: item[0] + ("/" if item[1][0] == "40000" else ""))
        body = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(id) for name, (mode, id) in order)
        return self._store("tree", body)

    def _store(self, kind: str, body: bytes) -> str:
        whole = f"{kind} {len(body)}\0".encode() + body
        id = hashlib.sha1(whole).hexdigest()
        self.objects[id] = whole
        return id

    def entries(self) -> dict[str, Entry]:
        """Return the working folder, including `.git`, with the current branch checked out: path -> entry."""
        files = self.trees[self.refs[f"refs/heads/{self.branch}"]]
        entries_found = {path: file(content) for path, content in files.items()}
        entries_found[".git/HEAD"] = file(f"ref: refs/heads/{self.branch}\n")
        entries_found[".git/config"] = file("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")
        entries_found |= {
            f".git/{name}": folder() for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info")
        }
        for name, commit in self.refs.items():
            entries_found[f".git/{name}"] = file(f"{commit}\n")
        for id, whole in self.objects.items():
            entries_found[f".git/objects/{id[:2]}/{id[2:]}"] = file(zlibbed(whole), 0o444)
        entries_found[".git/index"] = file(_index(files))
        return entries_found


def _index(files: Files) -> bytes:
    """Return a git index (version 2) of the files with zero modification times, so that git compares contents."""
    body = b"DIRC" + (2).to_bytes(4, "big") + len(files).to_bytes(4, "big")
    for path, content in sorted(files.items()):
        name = path.encode()
        id = hashlib.sha1(f"blob {len(content)}\0".encode() + content).digest()
        numbers = (0, 0, 0, 0, 0, 0, 0o100644, 0, 0, len(content))  # times, device, inode, mode, owner, group, size
        entry = b"".join(number.to_bytes(4, "big") for number in numbers) + id
        entry += min(len(name), 0xFFF).to_bytes(2, "big") + name
        body += entry + b"\0" * (8 - len(entry) % 8)
    return body + hashlib.sha1(body).digest()
