"""Task families about files: names, places, content and size."""

import hashlib
import posixpath

from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, shuffled
from agentgym.envs.terminal.tree import Entry, file
from agentgym.envs.terminal.words import lines, names, number, numbered, path, sentence


@family("rename")
def rename(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: change file extensions, also in subfolders; at higher levels, extensions have any letter case."""
    top = numbered(ask)
    old, new = pick(ask, (("jpeg", "jpg"), ("htm", "html"), ("text", "txt"), ("yml", "yaml"), ("mpeg", "mpg")))
    tree, expected = dict[str, Entry](), dict[str, bytes]()

    def put(place: str, stem: str, ending: str, fits: bool) -> None:
        entry = tree[f"{top}/{place}{stem}.{ending}"] = file(sentence(fill) + "\n")
        expected[f"{top}/{place}{stem}.{new if fits else ending}"] = entry.content

    stems = names(fill, 6 + 4 * level)
    for place, stem in enumerate(stems):
        spaced = f"{stem} {numbered(fill)}" if level and place % 2 else stem
        put(path(fill, place % (2 + level)), spaced, old, True)
    put("", f"about-{old}-{stems[0]}", old, True)
    put("", f"list.{old}", "bak", False)
    put("", numbered(fill, "plan"), "md", False)
    capitals = level >= 2
    if capitals:
        put("", numbered(fill, "loud"), old.upper(), True)
        put(path(fill, 1), numbered(fill, "mixed"), old.capitalize(), True)

    def check(final: Final) -> Checks:
        yield f"{top} holds exactly the right names and contents", final.files(top) == expected

    looked = "-iname" if capitals else "-name"
    how = ", in uppercase or lowercase," if capitals else ""
    return Scenario(
        f"Every file in `{top}` (subfolders included) whose name ends in `.{old}`{how} should end in `.{new}` instead: "
        f"rename it and leave the rest of its name alone. Other files keep their names.",
        tree,
        (
            f"find {top} -type f {looked} '*.{old}' -print0 | while IFS= read -r -d '' f; do\n"
            f'  mv -- "$f" "${{f%.*}}.{new}"\ndone',
        ),
        {
            "only at the top": (f'for f in {top}/*.{old}; do mv "$f" "${{f%.{old}}}.{new}"; done',),
            "wherever it stands in the name": (
                f"find {top} -type f -name '*{old}*' -print0 | while IFS= read -r -d '' f; do\n"
                f'  d=$(dirname "$f"); b=$(basename "$f"); mv -n "$f" "$d/${{b//{old}/{new}}}"\ndone',
            ),
        },
        check,
        look=(f"find {top} -type f | sort",),
        show=(f"find {top} -type f | sort",),
        changes=(top,),
    )


@family("sort-by-date")
def sort_by_date(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: move files into folders by the date in their names, which differs from their modification time."""
    top, out = numbered(ask), numbered(ask, "sorted")
    tree, expected = dict[str, Entry](), dict[str, bytes]()
    for stem in names(fill, 7 + 4 * level):
        year, month, day = number(fill, 2015, 2023), number(fill, 1, 12), number(fill, 1, 28)
        date = f"{year}-{month:02}-{day:02}"
        name = pick(fill, (f"{stem}_{date}.csv", f"{date} {stem}.txt", f"{stem}-{date}-v{number(fill, 1, 9)}.log"))
        entry = file(sentence(fill), time=1_600_000_000 + number(fill, 0, 90_000_000))
        tree[f"{top}/{path(fill, number(fill, 0, level))}{name}"] = entry
        expected[f"{out}/{year}/{month:02}/{name}"] = entry.content
    for stem in names(fill, 2 + level):
        name = pick(fill, (f"{stem}_20{number(fill, 15, 23)}0714.csv", f"{stem}_2021-7-4.txt", f"{stem}.txt"))
        entry = tree[f"{top}/{name}"] = file(sentence(fill))
        expected[f"{out}/undated/{name}"] = entry.content

    def check(final: Final) -> Checks:
        yield f"{out} holds exactly the right files", final.files(out) == expected
        yield f"no file is left in {top}", not final.files(top)

    def loop(inside: str) -> str:
        return f"find {top} -type f -print0 | while IFS= read -r -d '' f; do\n  n=$(basename \"$f\")\n{inside}\ndone"

    dated = "[[ $n =~ ([0-9]{4})-([0-9]{2})-[0-9]{2} ]]"
    by_name = f"  if {dated}; then d={out}/${{BASH_REMATCH[1]}}/${{BASH_REMATCH[2]}}; else d=DEFAULT; fi\n"
    move = '  mkdir -p "$d"; mv -- "$f" "$d/"'
    return Scenario(
        f"Move every file below `{top}` to `{out}/YEAR/MONTH/`, by the date in its name, and keep the name: "
        f"`x_2019-04-30.csv` goes to `{out}/2019/04/x_2019-04-30.csv`. A date is written as four digits, two digits and two "
        f"digits with hyphens between them. Files without one go to `{out}/undated/`. In the end no file "
        f"is left in `{top}`.",
        tree,
        (loop(by_name.replace("DEFAULT", f"{out}/undated") + move),),
        {
            "by the time of change": (loop(f'  d={out}/$(date -r "$f" +%Y/%m)\n{move}'),),
            "no folder for those without a date": (loop(by_name.replace("DEFAULT", out) + move),),
        },
        check,
        look=(f"find {top} -type f | sort | head -40",),
        show=(f"find {out} -type f | sort | head -40; find {top} -type f",),
        changes=(top, out),
    )


@family("duplicates")
def duplicates(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: delete files with duplicate content; names and sizes are misleading."""
    top = numbered(ask)
    keep = pick(ask, ("first", "last"))
    tree = dict[str, Entry]()
    stems = names(fill, 6 + 4 * level)  # the same names for copies and non-copies
    contents = [lines(fill, number(fill, 1, 4)) for _ in range(4 + 3 * level)]
    contents += [text[::-1] if text != text[::-1] else text + "x" for text in contents]  # other content, equal length
    for copies, content in [(3, lines(fill, 2)), *((number(fill, 1, 2), content) for content in contents)]:
        for _ in range(copies):
            place = ""
            while not place or place in tree:
                place = f"{top}/{path(fill, number(fill, 0, 1 + level))}{pick(fill, stems)}.dat"
            tree[place] = file(content)
    by_content: dict[bytes, list[str]] = {}
    for name in sorted(tree, reverse=keep == "last"):
        by_content.setdefault(tree[name].content, []).append(name)
    expected = {paths[0]: content for content, paths in by_content.items()}

    def check(final: Final) -> Checks:
        yield f"{top} holds each content once, under the right path", final.files(top) == expected

    sort = "LC_ALL=C sort -rz" if keep == "last" else "LC_ALL=C sort -z"
    other = "LC_ALL=C sort -z" if keep == "last" else "LC_ALL=C sort -rz"

    def by_sum(order: str) -> str:
        return (
            f"find {top} -type f -print0 | {order} | xargs -0 sha256sum | "
            "awk 'seen[$1]++ { print substr($0, 67) }' | while IFS= read -r f; do rm -- \"$f\"; done"
        )

    return Scenario(
        f"In `{top}` and the folders below it some files have the same content. Of all files with the same "
        "content keep only "
        f"the one whose path comes {keep} in byte order (`LC_ALL=C sort`), and delete the others.",
        tree,
        (by_sum(sort),),
        {
            "keeps the one at the other end": (by_sum(other),),
            "same size is not the same content": (
                f"find {top} -type f -printf '%s %p\\n' | LC_ALL=C sort -k2 {'-r' if keep == 'last' else ''} | "
                "awk 'seen[$1]++ { print $2 }' | while read -r f; do rm -- \"$f\"; done",
            ),
        },
        check,
        look=(f"find {top} -type f -exec sha256sum {{}} + | sort",),
        show=(f"find {top} -type f -exec sha256sum {{}} + | sort",),
        changes=(top,),
    )


def _sized(fill: Rng, top: str, folders: list[str], count: int, level: int) -> tuple[dict[str, Entry], set[str]]:
    """Return files of distinct sizes, and the paths of the hidden ones; one hidden file is among the `count` largest."""
    sizes = sorted((int(size) for size in fill.choice(6000, size=8 + 4 * level + count * 2, replace=False)), reverse=True)
    veiled = {number(fill, 0, count - 1), *(number(fill, count, len(sizes) - 1) for _ in range(3))}
    tree, hidden = dict[str, Entry](), set[str]()
    for place, rank in enumerate(shuffled(fill, range(len(sizes)))):
        where = f"{top}/{folders[place % len(folders)]}{path(fill, number(fill, 0, level))}"
        name = f"{where}{'.' if rank in veiled else ''}{numbered(fill)}.bin"
        tree[name] = file(b"x" * (sizes[rank] + 1))
        hidden |= {name} if rank in veiled else set()
    return tree, hidden


@family("largest")
def largest(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: name the largest files, including hidden files; from level 2 on, the folders with the most bytes."""
    top, out, count = numbered(ask), f"{numbered(ask)}.txt", number(ask, 3, 4 + level)
    by_folder, folders = level >= 2, [f"{name}/" for name in names(fill, count + 2)]
    tree, order, hidden = dict[str, Entry](), list[tuple[str, int]](), set[str]()
    while not any(name in hidden for name, _ in order):  # otherwise ignoring hidden files would succeed
        tree, hidden = _sized(fill, top, folders, count, level)
        totals: dict[str, int] = {}
        for name, entry in tree.items():
            key = posixpath.dirname(name).split("/")[1] if by_folder else name
            totals[key] = totals.get(key, 0) + len(entry.content)
        order = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:count]
        hidden = {posixpath.dirname(name).split("/")[1] for name in hidden} if by_folder else hidden
    answer = "".join(f"{size} {name}\n" for name, size in order)

    def check(final: Final) -> Checks:
        yield f"{out} holds the right lines", final.text(out) == answer.rstrip()

    listed = f"find {top} -type f -printf '%s %p\\n'"
    if by_folder:
        summed = "awk '{ split($2, part, \"/\"); total[part[2]] += $1 } END { for (name in total) print total[name], name }'"
        task = f"the {count} folders directly in `{top}` that hold the most bytes, files in folders below them included"
        shape = "bytes, a space and the folder's name"
        pipe = f"{listed} | {summed}"
    else:
        task = f"the {count} largest files in `{top}` and below"
        shape = f"bytes, a space and the path (beginning with `{top}/`)"
        pipe = listed
    seen = pipe.replace("-type f", "-type f -not -name '.*'")
    ending = f"| LC_ALL=C sort -k1,1nr -k2 | head -{count} > {out}"
    return Scenario(
        f"Write to `{out}` {task}, hidden files included, one per line, as {shape}; the largest first, "
        "ties by name. A size is the number of bytes of content, not the disk space used.",
        tree,
        (f"{pipe} {ending}",),
        {
            "hidden files are left out": (f"{seen} {ending}",),
            "room on the disk": (f"du -a {top} {ending}",),
            "smallest first": (f"{pipe} {ending.replace('nr', 'n')}",),
        },
        check,
        look=(f"ls -laR {top} | head -60",),
        show=(f"cat {out}",),
        changes=(out,),
        answers=(answer,),
    )


@family("checksums")
def checksums(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: find the changed files and the missing files of a list of checksums."""
    top = numbered(ask)
    bad, gone = f"{numbered(ask, 'changed')}.txt", f"{numbered(ask, 'missing')}.txt"
    paths = [f"{path(fill, number(fill, 0, 1 + level))}{name}.dat" for name in names(fill, 8 + 5 * level)]
    tree, sums = dict[str, Entry](), list[str]()
    changed, missing = sorted(paths[:2]), sorted(paths[2:4])
    for name in sorted(paths):
        content = lines(fill, 2).encode()
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        if name not in missing:
            tree[f"{top}/{name}"] = file(bytes([content[0] ^ 1, *content[1:]]) if name in changed else content)
    tree[f"{top}/{numbered(fill, 'unlisted')}.dat"] = file(lines(fill, 1))
    tree[f"{top}/SHA256SUMS"] = file("".join(sums))

    def check(final: Final) -> Checks:
        yield f"{bad} names the files with another content", final.text(bad) == "\n".join(changed)
        yield f"{gone} names the files that are not there", final.text(gone) == "\n".join(missing)

    verify = f"cd {top}; sha256sum -c SHA256SUMS 2>/dev/null"
    return Scenario(
        f"`{top}/SHA256SUMS` lists checksums of files, with paths relative to `{top}`. Write to `{bad}` the listed paths of "
        f"the files whose content has changed, and to `{gone}` the listed paths of files that are not there: one a line, "
        "sorted, written as in the list. Unlisted files do not matter.",
        tree,
        (
            f"(cd {top} && while read -r sum path; do\n"
            f'  if [ ! -e "$path" ]; then echo "$path" >> ../{gone}\n'
            f'  elif [ "$(sha256sum < "$path" | cut -d" " -f1)" != "$sum" ]; then echo "$path" >> ../{bad}; fi\n'
            f"done < SHA256SUMS)\nsort -o {bad} {bad}; sort -o {gone} {gone}",
        ),
        {
            "what is missing counts as changed": (
                f"({verify} | grep FAILED | cut -d: -f1 | sort > ../{bad}); touch {gone}",
            ),
            "the two exchanged": (
                f"({verify} | grep 'FAILED open' | cut -d: -f1 | sort > ../{bad};"
                f" sha256sum -c SHA256SUMS 2>/dev/null | grep 'FAILED$' | cut -d: -f1 | sort > ../{gone})",
            ),
        },
        check,
        look=(f"ls {top}; head -5 {top}/SHA256SUMS",),
        show=(f"cat {bad}; echo; cat {gone}",),
        changes=(bad, gone),
        answers=("\n".join(changed), "\n".join(missing)),
    )
