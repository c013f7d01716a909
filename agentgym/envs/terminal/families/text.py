"""Task families about text: logs, lists, encodings, crontabs."""

from functools import partial

from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, sample, shuffled
from agentgym.envs.terminal.stored import gzipped
from agentgym.envs.terminal.tree import Entry, file
from agentgym.envs.terminal.words import PEOPLE, SERVICES, SURNAMES, VERBS, names, number, numbered, path, sentence

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@family("tally")
def tally(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: count log lines by service, though messages contain the counted word, too.

    At higher levels, some logs are compressed.
    """
    top, out, row = numbered(ask), f"{numbered(ask)}.txt", pick(ask, LEVELS[1:])
    packed = level >= 2
    tree, counts = dict[str, Entry](), dict[str, int]()

    def line(service: str, kind: str) -> str:
        clock = f"2024-{number(fill, 1, 12):02}-{number(fill, 1, 28):02} {number(fill, 0, 23):02}:{number(fill, 0, 59):02}"
        message = f"{sentence(fill, 3)}{f' {row}' if fill.random() < 0.3 else ''}"
        return f"{clock} {kind} {service}: {message}\n"

    services = sample(fill, SERVICES, 4 + min(level, 8))
    for place, name in enumerate(names(fill, 3 + level)):
        body = [line(service, row) for service in services]
        body += [line(pick(fill, services), pick(fill, LEVELS)) for _ in range(10 + 10 * level)]
        other = next(kind for kind in LEVELS if kind != row)
        body.append(line(services[0], other).rstrip() + f" {row}\n")
        body = shuffled(fill, body)
        zipped = packed and place % 2 == 1
        text = "".join(body).encode()
        where = f"{top}/{path(fill, place % 2 if level else min(place, 1))}{name}.log"
        tree[where + (".gz" if zipped else "")] = file(gzipped(text) if zipped else text)
        for entry in body:
            _, _, kind, service, *_ = entry.split()
            if kind == row:
                counts[service.rstrip(":")] = counts.get(service.rstrip(":"), 0) + 1
    tree[f"{top}/{numbered(fill)}.log.old"] = file("".join(line(service, row) for service in services))
    answer = "".join(f"{name} {n}\n" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def check(final: Final) -> Checks:
        yield f"{out} holds the right counts in the right order", final.text(out) == answer.rstrip()

    count = f'awk \'$3 == "{row}" {{ sub(/:$/, "", $4); n[$4]++ }} END {{ for (s in n) print s, n[s] }}\''
    anywhere = count.replace(f'$3 == "{row}"', "")
    order = f"LC_ALL=C sort -k2,2nr -k1,1 > {out}"
    every = f"find {top} -name '*.log' -exec cat {{}} +"
    if packed:
        every = f"(find {top} -name '*.log' -exec cat {{}} +; find {top} -name '*.log.gz' -exec gzip -dc {{}} +)"
    also = ", and of those ending in `.log.gz`, which are compressed with gzip" if packed else ""
    return Scenario(
        f"The lines of the logs below `{top}` read `DATE TIME LEVEL SERVICE: MESSAGE`. Of all files whose names end in "
        f"`.log`{also}, count the lines of level `{row}` by service. Write to `{out}` a line for each service that has "
        "any: its name, a space and the count; the highest count first, ties by name.",
        tree,
        (f"{every} | {count} | {order}",),
        {
            "the word anywhere in the line": (f"{every} | grep {row} | {anywhere} | {order}",),
            "all files": (f"find {top} -type f -exec gzip -dcf {{}} + | {count} | {order}",),
            "by name alone": (f"{every} | {count} | LC_ALL=C sort -k2,2n -k1,1r > {out}",),
        },
        check,
        look=(f"find {top} -type f | sort", f"find {top} -name '*.log' | sort | head -1 | xargs head -5"),
        show=(f"cat {out}",),
        changes=(out,),
        answers=(answer,),
    )


@family("lists")
def lists(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: find the names that only the first list has; at higher levels, letter case and line ends differ."""
    count = 2 + min(level, 3)
    files, out = [f"{name}.txt" for name in names(ask, count)], f"{numbered(ask, 'result')}.txt"
    loose = level >= 1
    people = [f"{first} {last}" for first in PEOPLE for last in SURNAMES]
    drawn = sample(fill, people, 30 + 10 * level)
    only, elsewhere = drawn[: 8 + level], drawn[8 + level : 20 + level]
    # One name in another list is a prefix of one that counts, so substring matches are wrong.
    longer = [f"{only[0]}-{pick(fill, SURNAMES)}"]
    members: list[list[str]] = [[] for _ in files]
    members[0] = shuffled(fill, [*only, *elsewhere, only[1], only[1]])
    for place in range(1, count):
        share = elsewhere[place - 1 :: count - 1]
        members[place] = shuffled(fill, [*share, *drawn[20 + level :], *longer])
    expected = sorted({name.lower() for name in only} if loose else set(only))

    def written(name: str) -> str:
        spelled = pick(fill, (name, name.lower(), name.upper())) if loose else name
        return spelled + (pick(fill, ("\n", "\r\n")) if level >= 2 else "\n")

    tree = {path: file("".join(map(written, lines_of_file))) for path, lines_of_file in zip(files, members, strict=True)}

    def check(final: Final) -> Checks:
        yield f"{out} holds the right names", final.text(out) == "\n".join(expected)

    others = " ".join(files[1:])
    clean = "tr -d '\\r' | tr A-Z a-z" if level >= 2 else "tr A-Z a-z" if loose else "cat"
    sort = "LC_ALL=C sort -u"
    case_text = "in lower case and " if loose else ""
    same = "Case and line endings do not matter. " if level >= 2 else "Case does not matter. " if loose else ""
    return Scenario(
        f"Each line of `{'`, `'.join(files)}` is a name. Write to `{out}` the names that are in "
        f"`{files[0]}` and in none of the "
        f"other lists, {case_text}each once, sorted in byte order. {same}A name is a whole line.",
        tree,
        (
            f"cat {others} | {clean} | {sort} > /tmp/others\n"
            f"cat {files[0]} | {clean} | {sort} | LC_ALL=C comm -23 - /tmp/others > {out}",
        ),
        {
            "part of a line": (
                f"cat {files[0]} | {clean} | {sort} > /tmp/all; cat {others} | {clean} > /tmp/others; "
                f'while IFS= read -r n; do grep -qF "$n" /tmp/others || echo "$n"; done < /tmp/all > {out}',
            ),
            "only the second list": (
                f"cat {files[1]} | {clean} | {sort} > /tmp/b; cat {files[0]} | {clean} | {sort} | "
                f"LC_ALL=C comm -13 - /tmp/b > {out}",
            ),
            "each as often as it is there": (
                f"cat {others} | {clean} > /tmp/o; cat {files[0]} | {clean} | LC_ALL=C sort | grep -vxFf /tmp/o > {out}",
            ),
        },
        check,
        look=(f"wc -l *.txt; head -3 {' '.join(files)}",),
        show=(f"cat {out}",),
        changes=(out,),
        answers=("\n".join(expected),),
    )


ACCENTS = ("café", "naïve", "über", "señor", "façade", "élan", "Zoë", "Ångström", "crème", "brûlée", "Köln", "piñata")


@family("encoding")
def encoding(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: convert texts with two encodings and two kinds of line ends to one form."""
    top = numbered(ask)
    old = pick(ask, ("ISO-8859-1", "UTF-16"))
    tree, expected = dict[str, Entry](), dict[str, bytes]()
    for place, name in enumerate(names(fill, 6 + 3 * level)):
        text = "".join(f"{pick(fill, ACCENTS)} {sentence(fill, 3)}\n" for _ in range(number(fill, 2, 5)))
        where = f"{top}/{path(fill, place % (1 + level) if level else 0)}{name}.txt"
        ended = text.replace("\n", "\r\n") if place % 3 == 1 else text
        tree[where] = file(ended.encode(old) if place % 2 else ended.encode())
        expected[where] = text.encode()
    binary = f"{top}/{numbered(fill)}.bin"
    tree[binary] = file(bytes(fill.integers(128, 256, 40, dtype="uint8")) + b"\r\n")

    def check(final: Final) -> Checks:
        contents = {name: final.content(name) for name in expected}
        yield "every text is UTF-8, with the same words and with single line feeds", contents == expected

    def change(body: str) -> str:
        return (
            f"python3 - <<'END'\nimport pathlib\nfor path in sorted(pathlib.Path('{top}').rglob('*.txt')):\n"
            f"    raw = path.read_bytes()\n{body}\nEND"
        )

    right = (
        f"    try:\n        text = raw.decode('utf-8')\n    except UnicodeDecodeError:\n        text = raw.decode('{old}')\n"
        "    path.write_bytes(text.replace('\\r\\n', '\\n').encode())"
    )
    return Scenario(
        f"Some of the `.txt` files in `{top}` and below are encoded in {old}, the others in UTF-8, and some end their lines "
        "with CR LF. Rewrite them so that all are UTF-8 (without a byte order mark) with LF line endings and the same text. "
        "Files of other kinds stay as they are.",
        tree,
        (change(right),),
        {
            "converts what is UTF-8 already": (
                change(f"    path.write_bytes(raw.decode('{old}', 'replace').replace('\\r\\n', '\\n').encode())"),
            ),
            "line ends alone": (change("    path.write_bytes(raw.replace(b'\\r\\n', b'\\n'))"),),
            "drops what it cannot read": (
                change("    path.write_bytes(raw.decode('utf-8', 'ignore').replace('\\r\\n', '\\n').encode())"),
            ),
        },
        check,
        look=(f"find {top} -type f | sort", f"find {top} -name '*.txt' | sort | head -2 | xargs head -c 60 | cat -A"),
        show=(f"find {top} -name '*.txt' | sort | head -3 | xargs head -2",),
        changes=sorted(expected),
    )


def _fits(field: str, value: int) -> bool:
    """Return True if a value matches a crontab field."""
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first, last = (0, 99) if span == "*" else (int(low), int(high or low))
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


def _field(fill: Rng, value: int, least: int, most: int, due: bool) -> str:
    """Return a crontab field that matches `value` if `due`, and does not match it otherwise."""
    low, high = number(fill, least, value), number(fill, value, most)
    other = pick(fill, [n for n in range(least, most + 1) if n != value])
    fitting = ["*", str(value), f"{low}-{high}", ",".join(str(n) for n in sorted({value, other}))]
    steps = [n for n in (2, 3, 4, 5, 10, 15) if (value - least) % n == 0 and least == 0]
    fitting += [f"*/{n}" for n in steps]
    missing = [str(other), f"{other},{other}"[: len(str(other))]]
    missing += [f"*/{n}" for n in (7, 11, 25) if value % n and least == 0]
    if value < most:
        missing.append(f"{value + 1}-{most}")
    return pick(fill, fitting if due else missing)


def _due(table: str, out: str, now: tuple[int, int, int, int], test: str, skip: str = "") -> str:
    """Return a command that finds the jobs of a crontab that are due at `now`, and writes their names to the file `out`.

    `test` is a Python condition: True if a field's part (`first`, `last`, `step`) matches `value`. `skip` is a method
    call on each line before it is split, such as `.lstrip('#')`.
    """
    return (
        f"python3 - > {out} <<'END'\n"
        "def fits(field, value):\n"
        "    for part in field.split(','):\n"
        "        span, _, step = part.partition('/')\n"
        "        low, _, high = span.partition('-')\n"
        "        first, last = (0, 99) if span == '*' else (int(low), int(high or low))\n"
        f"        if {test}:\n            return True\n"
        "    return False\n"
        f"now, due = {now}, []\n"
        f"for line in open('{table}'):\n"
        f"    fields = line{skip}.split()\n"
        "    if line.strip() and fields and not fields[0].startswith('#') and len(fields) > 5:\n"
        "        if all(fits(f, v) for f, v in zip(fields, now)):\n"
        "            due.append(fields[5].rsplit('/', 1)[1])\n"
        "print('\\n'.join(sorted(due)))\nEND"
    )


@family("crontab")
def crontab(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: find the lines of a crontab that run at a given time; fields have steps, ranges and lists."""
    table, out = f"{numbered(ask)}.cron", f"{numbered(ask, 'due')}.txt"
    month, day = number(ask, 1, 12), number(ask, 1, 28)
    hour, minute = number(ask, 0, 23), 5 * number(ask, 1, 11)
    rows, due_names = list[str](), list[str]()
    for place, name in enumerate(names(fill, 8 + 5 * level)):
        bounds = ((minute, 0, 59), (hour, 0, 23), (day, 1, 31), (month, 1, 12))
        wrong = None if place % 2 == 0 else number(fill, 0, 3)
        fields = [_field(fill, *bound, due=spot != wrong) for spot, bound in enumerate(bounds)]
        rows.append(f"{' '.join(fields)} * /opt/jobs/{name} --{pick(fill, VERBS)}\n")
        if all(_fits(text, bound[0]) for text, bound in zip(fields, bounds, strict=True)):
            due_names.append(name)
    stepped, never, off = names(fill, 3, tuple(row.split("/opt/jobs/")[1].split()[0] for row in rows))
    step = next(n for n in (7, 11, 13) if minute % n)
    extra = {f"*/5 {hour} {day} {month}": stepped, f"*/{step} {hour} {day} {month}": never}
    extra[f"#{minute} {hour} {day} {month}"] = off
    rows += [f"{fields} * /opt/jobs/{name} --{pick(fill, VERBS)}\n" for fields, name in extra.items()]
    rows = [f"# {numbered(fill)}\n", *shuffled(fill, rows)]
    answer = sorted([*due_names, stepped])

    def check(final: Final) -> Checks:
        yield f"{out} names the jobs that are due", final.text(out) == "\n".join(answer)

    program = partial(_due, table, out, (minute, hour, day, month))
    whole = "first <= value <= last and (value - first) % int(step or 1) == 0"
    return Scenario(
        f"`{table}` is a crontab: minute, hour, day of the month, month, day of the week (always `*` "
        "here), command. A field "
        "is `*`, a number, a range `a-b`, a list with commas, or `*/n` for every n-th value from 0. Which jobs "
        f"start on day {day} of month {month} at {hour:02}:{minute:02}? Write the last part of each command's path (the "
        f"file's name, without arguments) to `{out}`, one per line, sorted.",
        {table: file("".join(rows))},
        (program(whole),),
        {
            "steps are taken for every value": (program("first <= value <= last"),),
            "steps are left out": (program("not step and first <= value <= last"),),
            "comments count": (program(whole, ".lstrip('#')"),),
        },
        check,
        look=(f"cat {table}",),
        show=(f"cat {out}",),
        changes=(out,),
        answers=("\n".join(answer),),
    )
