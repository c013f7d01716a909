"""Task families about git histories: find, restore, branch, merge."""

from agentgym.envs.terminal.repository import Repository
from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, sample
from agentgym.envs.terminal.tree import Entry
from agentgym.envs.terminal.words import PLACES, SERVICES, THINGS, lines, names, number, numbered, sentence


def _placed(top: str, repository: Repository) -> dict[str, Entry]:
    return {f"{top}/{path}": entry for path, entry in repository.entries().items()}


def _files(fill: Rng, count: int) -> dict[str, bytes]:
    return {f"{pick(fill, ('', 'src/', 'docs/'))}{name}.txt": lines(fill, 4).encode() for name in names(fill, count)}


SUBJECTS = ("Work on", "Update", "Revise", "Change", "Edit", "Tune", "Extend", "Correct")
"""First words of commit subjects; independent of the commit's content, so that only its changes identify it."""


def _subject(fill: Rng, path: str) -> str:
    return f"{pick(fill, SUBJECTS)} {path}"


def _worked(repository: Repository, fill: Rng, files: dict[str, bytes], path: str) -> dict[str, bytes]:
    """Add a commit that appends a line to a file, and return the files' new content."""
    files = {**files, path: files[path] + f"{sentence(fill)}\n".encode()}
    repository.commit(files, _subject(fill, path))
    return files


def _history(repository: Repository, fill: Rng, files: dict[str, bytes], count: int) -> dict[str, bytes]:
    """Add `count` commits that each change one file, and return the files' final content."""
    for _ in range(count):
        files = _worked(repository, fill, files, pick(fill, sorted(files)))
    return files


def _git(top: str, command: str) -> str:
    return f"git -C {top} {command}"


@family("git-find")
def find(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: find the commit that first introduced a text, which later commits removed and added again."""
    top, out, target = numbered(ask), f"{numbered(ask, 'commit')}.txt", f"{numbered(ask)}.cfg"
    line = f"{pick(ask, THINGS)}_{pick(ask, SERVICES)} = {number(ask, 100, 999)}"
    repository, files = Repository(), _files(fill, 3 + level)
    files[target] = f"# settings\nmode = {number(fill, 1, 9)}\n".encode()
    repository.commit(files, "Begin")
    count, added = 16 + 4 * level, f"{line}\n".encode()
    first = number(fill, 2, count - 3)  # uniformly distributed in the history
    gone, back = sorted(sample(fill, range(first + 1, count), 2))
    noted, answer = number(fill, 1, first - 1), ""
    for place in range(1, count):
        path = target if place in (first, gone, back) else pick(fill, sorted(files))
        if place == noted:
            path = pick(fill, sorted(set(files) - {target}))
            files = {**files, path: files[path] + added}
        elif place == gone:
            files = {**files, path: files[path].replace(added, b"")}
        elif place in (first, back):
            files = {**files, path: files[path] + added}
        else:
            files = {**files, path: files[path] + f"{sentence(fill)}\n".encode()}
        commit = repository.commit(files, _subject(fill, path))
        answer = commit if place == first else answer

    def check(final: Final) -> Checks:
        yield f"{out} holds the commit", final.text(out) == answer

    log = _git(top, "log --format=%H")
    return Scenario(
        f"In the git repository `{top}`, which commit of `main` was the first to add the line `{line}` to the file "
        f"`{target}`? Write its full id (40 digits) to `{out}`, beside the repository.",
        _placed(top, repository),
        (f"{log} --reverse -S'{line}' -- {target} | head -1 > {out}",),
        {
            "the last change of the line": (f"{log} -1 -S'{line}' -- {target} > {out}",),
            "in any file": (f"{log} --reverse -S'{line}' | head -1 > {out}",),
            "the last change of the file": (f"{log} -1 -- {target} > {out}",),
        },
        check,
        look=(_git(top, "log --oneline | head -20"), _git(top, f"log --oneline -- {target}")),
        show=(f"cat {out}",),
        changes=(out, f"{top}/.git"),
        answers=(answer,),
    )


@family("git-restore")
def restore(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: restore the last version of a deleted file, and commit it."""
    top, message = numbered(ask), f"Bring back {numbered(ask)}"
    target = f"{pick(ask, PLACES)}/{numbered(ask)}.md"
    repository, files = Repository(), _files(fill, 3 + level)
    files[target] = lines(fill, 3).encode()
    repository.commit(files, "Begin")
    count = 10 + 4 * level
    deleted = number(fill, 3, count - 2)
    changed = number(fill, 1, deleted - 1)
    last = files[target]
    for place in range(1, count):
        if place == deleted:
            last = files.pop(target)
            repository.commit(files, _subject(fill, target))
        else:
            files = _worked(repository, fill, files, target if place == changed else pick(fill, sorted(files)))
    before = repository.refs["refs/heads/main"]
    expected_tree = repository.tree_of({**files, target: last})

    def check(final: Final) -> Checks:
        yield f"{target} is there as it was", final.content(f"{top}/{target}") == last
        yield "main has one more commit", final.prints(_git(top, "rev-parse refs/heads/main~1")) == before
        yield (
            "the commit holds the file and nothing else new",
            final.prints(_git(top, "rev-parse refs/heads/main^{tree}")) == expected_tree,
        )
        yield "its message is right", final.prints(_git(top, "log -1 --format=%B refs/heads/main")) == message

    deletion = f"$({_git(top, f'log -1 --format=%H --diff-filter=D -- {target}')})"
    first = f"$({_git(top, f'log --reverse --format=%H -- {target}')} | head -1)"
    commit = _git(top, f"commit -qm '{message}'")
    return Scenario(
        f"In the git repository `{top}` the file `{target}` was deleted some commits ago. Bring it back as "
        "it was right before "
        f"it was deleted, and commit that on `main`, as one new commit with the message `{message}`.",
        _placed(top, repository),
        (_git(top, f"checkout {deletion}~1 -- {target}"), commit),
        {
            "its first version": (_git(top, f"checkout {first} -- {target}"), commit),
            "not committed": (_git(top, f"checkout {deletion}~1 -- {target}"),),
            "main goes back": (
                _git(top, f"reset -q --hard {deletion}~1"),
                _git(top, f"commit -q --allow-empty -m '{message}'"),
            ),
        },
        check,
        look=(_git(top, "log --oneline | head -20"), _git(top, f"log --stat --oneline -- {target} | head -20")),
        show=(_git(top, "status --short"), _git(top, "log --stat -1")),
        changes=(f"{top}/.git", f"{top}/{target}"),
    )


@family("git-branch")
def branch(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: make a change on a new branch from a tag, without moving other branches."""
    top, name, message = numbered(ask), f"fix/{numbered(ask)}", f"Fix {numbered(ask)}"
    releases = 2 + min(level, 6)
    tag, key, value = f"v1.{number(ask, 0, releases - 2)}", pick(ask, SERVICES), number(ask, 100, 999)
    repository, files = Repository(), _files(fill, 2 + level)
    files["settings.txt"] = "".join(f"{service} {number(fill, 1, 99)}\n" for service in SERVICES).encode()
    repository.commit(files, "Begin")
    for release in range(releases):
        files = _history(repository, fill, files, 1 + level)
        files = {**files, "settings.txt": files["settings.txt"] + f"release {release}\n".encode()}
        repository.tag(f"v1.{release}", repository.commit(files, f"Release {release}"))
    _history(repository, fill, files, 1)
    start, before = repository.refs[f"refs/tags/{tag}"], repository.refs["refs/heads/main"]
    old = repository.trees[start]
    changed = b"".join(
        f"{key} {value}\n".encode() if line.startswith(f"{key} ".encode()) else line
        for line in old["settings.txt"].splitlines(keepends=True)
    )
    expected_tree = repository.tree_of({**old, "settings.txt": changed})

    def check(final: Final) -> Checks:
        yield f"{name} begins at {tag}", final.prints(_git(top, f"rev-parse refs/heads/{name}~1")) == start
        yield (
            "its commit makes the change and no other",
            final.prints(_git(top, f"rev-parse refs/heads/{name}^{{tree}}")) == expected_tree,
        )
        yield "its message is right", final.prints(_git(top, f"log -1 --format=%B refs/heads/{name}")) == message
        yield "main is where it was", final.prints(_git(top, "rev-parse refs/heads/main")) == before

    edit = (f"sed -i 's/^{key} .*/{key} {value}/' {top}/settings.txt", _git(top, f"commit -qam '{message}'"))
    return Scenario(
        f"In the git repository `{top}` make a branch `{name}` that starts at the tag `{tag}`. On it, in "
        "one commit with the "
        f"message `{message}`, set `{key}` in `settings.txt` to {value} (lines read `NAME NUMBER`), and "
        "change nothing else. "
        "`main` stays where it is.",
        _placed(top, repository),
        (_git(top, f"checkout -q -b {name} {tag}"), *edit),
        {
            "from main": (_git(top, f"checkout -q -b {name}"), *edit),
            "main moves along": (*edit, _git(top, f"branch {name}")),
            "not committed": (_git(top, f"checkout -q -b {name} {tag}"), edit[0]),
        },
        check,
        look=(_git(top, "log --oneline --decorate | head -20"), f"cat {top}/settings.txt"),
        show=(_git(top, f"log --oneline --decorate -2 {name}"), _git(top, f"diff {tag} {name}")),
        changes=(top,),
    )


@family("git-merge")
def merge(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: merge a branch, resolving conflicts by a rule: both sides change some of the same settings."""
    top, other = numbered(ask), f"feature-{numbered(ask)}"
    rule = pick(ask, ("ours", "theirs"))
    keys = sample(fill, [f"{service}_{place_name}" for service in SERVICES for place_name in PLACES], 9 + 3 * level)
    base = {key: number(fill, 10, 99) for key in keys}
    mine, theirs, merged = dict(base), dict(base), dict(base)
    for place, key in enumerate(keys[:: 3 if level < 2 else 4]):
        if place % 3 == 0:
            mine[key], theirs[key] = base[key] + 100, base[key] + 200
            merged[key] = mine[key] if rule == "ours" else theirs[key]
        elif place % 3 == 1:
            merged[key] = mine[key] = base[key] + 300
        else:
            merged[key] = theirs[key] = base[key] + 400

    def text(values: dict[str, int]) -> bytes:
        return "".join(f"[{key}]\nvalue = {value}\nnote = {key}\n\n" for key, value in values.items()).encode()

    repository, files = Repository(), _files(fill, 2 + level)
    files["settings.ini"] = text(base)
    begun = repository.commit(files, "Begin")
    aside = f"{numbered(fill)}.new"
    repository.commit({**files, "settings.ini": text(theirs), aside: b"new\n"}, "Feature", (begun,), other)
    left = f"{numbered(fill)}.here"
    repository.commit({**files, "settings.ini": text(mine), left: b"here\n"}, "Meanwhile", (begun,))
    both = {**files, "settings.ini": text(merged), aside: b"new\n", left: b"here\n"}
    tips = {repository.refs["refs/heads/main"], repository.refs[f"refs/heads/{other}"]}

    def check(final: Final) -> Checks:
        parents = final.prints(_git(top, "rev-parse refs/heads/main^1 refs/heads/main^2")) or ""
        yield "main is a merge of both branches", set(parents.split()) == tips
        yield (
            "it holds the changes of both sides",
            final.prints(_git(top, "rev-parse refs/heads/main^{tree}")) == repository.tree_of(both),
        )

    side, opposite = ("main", "theirs") if rule == "ours" else (f"`{other}`", "ours")
    side = "`main`" if side == "main" else side
    return Scenario(
        f"In the git repository `{top}` merge the branch `{other}` into `main`, with a merge commit. Both changed "
        f"`settings.ini`: where they changed the same setting, the value of {side} holds; all other "
        "changes of both sides are "
        "kept. Commit the result on `main`.",
        _placed(top, repository),
        (_git(top, f"merge -q -X {rule} -m 'Merge {other}' {other}"),),
        {
            "the other side's values": (_git(top, f"merge -q -X {opposite} -m merge {other}"),),
            "the whole file of one side": (
                f"cd {top}; git merge -q {other}; git checkout --{rule} settings.ini; git commit -qam merge",
            ),
            "with the marks of the conflict": (f"cd {top}; git merge -q {other}; git commit -qam merge",),
        },
        check,
        look=(_git(top, "log --oneline --graph --all"), _git(top, f"diff main...{other} --stat")),
        show=(_git(top, "log --oneline --graph -4"), _git(top, "status --short")),
        changes=(top,),
    )
