"""Task families about source files: renaming an identifier, and applying patches in order."""

import difflib

from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, shuffled
from agentgym.envs.terminal.tree import Entry, file
from agentgym.envs.terminal.words import SERVICES, THINGS, VERBS, names, number, numbered, path, sentence


@family("replace")
def replace(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: rename an identifier in source files: whole words only, in files of one kind."""
    top, ending = numbered(ask), pick(ask, ("py", "c", "js"))
    old = f"{pick(ask, VERBS)}_{pick(ask, THINGS)}"
    new = f"{pick(ask, SERVICES)}_{numbered(ask)}"
    tree, expected = dict[str, Entry](), dict[str, bytes]()
    shapes = ["{} = {}({})\n", "call({}, {}.{})\n", "# {} and {}, then {}\n", "if {}: {}[{}]\n"]
    longer = [f"{old}s", f"re{old}", f"{old}_2", f"my_{old}", f"{old}9"]
    for place, name in enumerate(names(fill, 5 + 3 * level)):
        body = f"# {sentence(fill)}\n"
        for _ in range(3 + level):
            shape, words = pick(fill, shapes), [pick(fill, (old, pick(fill, longer), numbered(fill))) for _ in range(3)]
            body += shape.format(*words)
        body += f"{old}({longer[place % 5]})\n"
        unchanged = body
        for word in longer:
            unchanged = unchanged.replace(word, word.replace(old, "\0"))
        where = f"{top}/{path(fill, place % (2 + level))}{name}.{ending}"
        tree[where] = file(body)
        expected[where] = unchanged.replace(old, new).replace("\0", old).encode()
    for other in ("md", "txt", f"{ending}.orig"):
        tree[f"{top}/{numbered(fill)}.{other}"] = file(f"{old} is called {old}\n")

    def check(final: Final) -> Checks:
        contents = {where: final.content(where) for where in expected}
        yield f"every .{ending} file has the new name wherever the old one stood", contents == expected

    def edit(pattern: str, kind: str = f"-name '*.{ending}'") -> str:
        return f"find {top} -type f {kind} -exec sed -i 's/{pattern}/{new}/g' {{}} +"

    return Scenario(
        f"In all files below `{top}` whose names end in `.{ending}`, rename `{old}` to `{new}`: wherever "
        "it stands as a whole "
        "name, in code and comments. Names that only contain it (a letter, digit or underscore before or "
        "after) stay, and so "
        "do all other files.",
        tree,
        (edit(rf"\b{old}\b"),),
        {
            "parts of names": (edit(old),),
            "files of every kind": (edit(rf"\b{old}\b", ""),),
            "the first in each line": (edit(rf"\b{old}\b").replace("/g'", "/'"), f"sed -i 's/^{old}(/x(/' {top}/*.{ending}"),
        },
        check,
        look=(f"grep -rn {old} {top} | sort | head -30",),
        show=(f"grep -rn {old} {top} | sort | head -30",),
        changes=[name for name in tree if name.endswith(f".{ending}")],
    )


@family("patches")
def patches(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: apply patches in the order of a list, which is not the order of their names and omits one patch."""
    top, box = numbered(ask), numbered(ask, "patches")
    states: list[dict[str, str]] = [{f"{path(fill, 1)}{name}.txt": _body(fill) for name in names(fill, 3 + level)}]
    series: list[str] = []
    tree = dict[str, Entry]()
    order = shuffled(fill, list(range(10, 10 + 3 + 2 * level)))
    order = order if order != sorted(order) else order[::-1]
    target = sorted(states[0])[0]
    for place, ordinal in enumerate(order):
        # Every patch changes the same line of one file, so that no other order applies.
        where = target if place < 2 or fill.random() < 0.4 else pick(fill, sorted(states[-1]))
        after = {**states[-1], where: _changed(states[-1][where], fill)}
        series.append(f"{ordinal}-{numbered(fill)}.patch")
        tree[f"{box}/{series[-1]}"] = file(_difference(where, states[-1][where], after[where]))
        states.append(after)
    spare = sorted(states[-1])[-1]
    extra = _difference(spare, states[-1][spare], states[-1][spare] + "unwanted\n")
    tree[f"{box}/99-{numbered(fill)}.patch"] = file(extra)
    tree[f"{box}/series"] = file("# in this order\n" + "".join(f"{name}\n" for name in series))
    tree |= {f"{top}/{name}": file(text) for name, text in states[0].items()}

    def check(final: Final) -> Checks:
        contents = {name: final.content(f"{top}/{name}") for name in states[-1]}
        yield f"{top} holds what the patches make of it", contents == {n: text.encode() for n, text in states[-1].items()}

    apply = f"git apply --directory={top} {box}/"
    alphabetical = f'for p in {box}/*.patch; do git apply --directory={top} "$p"; done'
    return Scenario(
        f"Apply the patches of `{box}` to the folder `{top}`: those that `{box}/series` lists, in its "
        "order (lines that begin "
        f"with # are comments). Paths in the patches are relative to `{top}`, with a first part `a/` or `b/`. "
        f"`{box}` stays as it is.",
        tree,
        (f"grep -v '^#' {box}/series | while read -r p; do {apply}$p || break; done",),
        {
            "by name": (alphabetical,),
            "all but the last listed": (f"grep -v '^#' {box}/series | head -n -1 | while read -r p; do {apply}$p; done",),
            "and those that are not listed": (
                f"grep -v '^#' {box}/series | while read -r p; do {apply}$p; done; {apply}99*",
            ),
        },
        check,
        look=(f"ls {box} {top}; cat {box}/series",),
        show=(f"find {top} -type f | sort | head -3 | xargs cat",),
        changes=(top,),
    )


def _body(fill: Rng) -> str:
    return "".join(f"{place} {sentence(fill)}\n" for place in range(12))


def _changed(text: str, fill: Rng) -> str:
    """Return the text with its sixth line and, occasionally, another line changed."""
    rows = text.splitlines(keepends=True)
    rows[5] = f"5 {sentence(fill)}\n"
    if fill.random() < 0.5:
        rows[10] = f"10 {sentence(fill, number(fill, 2, 6))}\n"
    return "".join(rows)


def _difference(name: str, before: str, after: str) -> str:
    rows = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(rows)
