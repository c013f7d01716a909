"""Lists among which the answer is found, of every generated family that has one: as an agent could list them."""

import csv
import io
import itertools
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from functools import lru_cache, partial

from surface import Listing

import agentgym
from agentgym.core.seeding import generator
from agentgym.envs.desk.database import Database
from agentgym.envs.desk.domains import DOMAINS
from agentgym.envs.desk.generate import draw
from agentgym.envs.search.generate import world
from agentgym.envs.sql.generate import instances
from agentgym.envs.terminal.scenario import Scenario, scenario
from agentgym.envs.web.family import TaskFamily
from agentgym.envs.web.family import plain as read_plainly
from agentgym.envs.web.sites import families as web_families
from agentgym.envs.web.state import EpisodeState

Draw = Callable[[int, int], Listing | None]
"""From a task's number and a difficulty to its list; None where this task has none."""


def listing(entries: Iterable[dict], right: Callable[[dict], bool]) -> Listing | None:
    """Return the entries, without what only `right` may see (keys that begin with `_`), if some and not all are right."""
    entries = list(entries)
    places = frozenset(place for place, entry in enumerate(entries) if right(entry))
    rows = [{key: value for key, value in entry.items() if key[0] != "_"} for entry in entries]
    return Listing(rows, places) if 0 < len(places) < len(entries) else None


def values(texts: Iterable[str], answers: Collection[str]) -> Listing | None:
    """Return the different values of a column in their order, with how often each is there."""
    counts = Counter(texts)
    return listing(({"value": text, "count": count} for text, count in counts.items()), lambda one: one["value"] in answers)


# Terminal: what ls, cat and git log list


def terminal(name: str, entries: Callable[[Scenario], Listing | None], number: int, level: int) -> Listing | None:
    """Return what the function lists of a task of the family."""
    return entries(scenario(name, number, number + 7, level))


def commits(scene: Scenario) -> list[dict]:
    """Return the commits of `main`, latest first; file names in subjects are all alike, for the instruction says one."""
    objects, heads = {}, {}
    for path, entry in scene.tree.items():
        if found := re.search(r"\.git/objects/(..)/(.{38})$", path):
            objects[found[1] + found[2]] = zlib.decompress(entry.content)
        elif path.endswith("refs/heads/main"):
            heads["main"] = entry.content.decode().strip()
    tree, here = [], heads["main"]
    while here:
        head, _, subject = objects[here].partition(b"\0")[2].decode().partition("\n\n")
        subject = re.sub(r"\S*\d\S*", "FILE", subject.strip())
        tree.append({"subject": subject, "author": re.findall(r"author (.*?) <", head)[0], "_id": here, "_tree": head[5:45]})
        here = next(iter(re.findall(r"^parent (\w+)", head, re.MULTILINE)), "")
    return tree


def found_commit(scene: Scenario) -> Listing | None:
    return listing(commits(scene), lambda commit: commit["_id"] == scene.answers[0])


def deleting_commit(scene: Scenario) -> Listing | None:
    """The commit that deletes a file, which only what it changes should tell."""
    target = re.findall(r"the file `(.*?)`", scene.instruction)[0]
    return listing(commits(scene), lambda commit: commit["_id"] == deletion(scene, target))


def deletion(scene: Scenario, target: str) -> str:
    """Return the id of the commit that deletes a file."""
    objects = {
        path[-41:-39] + path[-38:]: zlib.decompress(entry.content).partition(b"\0")[2]
        for path, entry in scene.tree.items()
        if ".git/objects/" in path and entry.kind == "file"
    }

    def holds(tree: str, path: list[str]) -> bool:
        body = objects[tree]
        while body:
            name, _, rest = body.partition(b"\0")
            if name.split(b" ", 1)[1].decode() == path[0]:
                return len(path) == 1 or holds(rest[:20].hex(), path[1:])
            body = rest[20:]
        return False

    history = commits(scene)
    for commit, before in itertools.pairwise(history):
        if not holds(commit["_tree"], target.split("/")) and holds(before["_tree"], target.split("/")):
            return commit["_id"]
    raise AssertionError(target)


def paths(scene: Scenario) -> list[str]:
    return sorted(path for path, entry in scene.tree.items() if entry.kind == "file")


def tail(path: str) -> str:
    """Return a path without its first folder, whose name is drawn."""
    return path.partition("/")[2]


def largest_files(scene: Scenario) -> Listing | None:
    named = {line.partition(" ")[2] for line in scene.answers[0].splitlines()}
    return listing(({"name": tail(path), "_path": path} for path in paths(scene)), lambda one: one["_path"] in named)


def changed_files(scene: Scenario) -> Listing | None:
    wrong = scene.answers[0].split("\n")
    return listing(({"name": tail(p)} for p in paths(scene) if "SUMS" not in p), lambda one: one["name"] in wrong)


def copies(scene: Scenario) -> Listing | None:
    """Files of which another with the same content is there."""
    contents = Counter(scene.tree[path].content for path in paths(scene))
    entries = [{"name": tail(path), "_twice": contents[scene.tree[path].content] > 1} for path in paths(scene)]
    return listing(entries, lambda one: one["_twice"])


def programs(scene: Scenario) -> Listing | None:
    """Files without an ending of their own that begin with #!, which only their content should tell."""
    scene_files = [(path, scene.tree[path]) for path in paths(scene)]
    entries = [{"name": tail(path), "mode": float(e.mode), "_begins": e.content[:2]} for path, e in scene_files]
    return listing((one for one in entries if not one["name"].endswith(".key")), lambda one: one["_begins"] == b"#!")


def names_in_first_list(scene: Scenario) -> Listing | None:
    first = scene.tree[re.findall(r"of `(.*?)`", scene.instruction)[0]].content.decode()
    answers = {line.lower() for line in scene.answers[0].split("\n")}
    lines = dict.fromkeys(first.replace("\r", "").lower().split("\n")[:-1])
    return listing(({"name": name} for name in lines), lambda one: one["name"] in answers)


def due_jobs(scene: Scenario) -> Listing | None:
    (content,) = [entry.content.decode() for entry in scene.tree.values() if entry.kind == "file"]
    jobs = [line.rpartition("/opt/jobs/")[2] for line in content.splitlines() if "/opt/jobs/" in line and line[0] != "#"]
    answers = scene.answers[0].split("\n")
    split = [job.split() for job in jobs]
    entries = [{"name": re.sub(r"\d+", "", name), "option": option, "_job": name} for name, option in split]
    return listing(entries, lambda one: one["_job"] in answers)


def paid_rows(scene: Scenario) -> Listing | None:
    (content,) = [entry.content.decode() for entry in scene.tree.values() if entry.kind == "file"]
    rows = list(csv.DictReader(io.StringIO(content)))
    least = float(re.findall(r"amount is (\d+)", scene.instruction)[0])
    entries = [
        {"id": float(row["id"]), "customer": row["customer"], "city": row["city"]}
        | {"_right": row["status"] == "paid" and float(row["amount"]) >= least}
        for row in rows
    ]
    return listing(entries, lambda one: one["_right"])


def archives(scene: Scenario) -> Listing | None:
    """Of the archives that lie in the folder, the one that holds the file that is asked for somewhere inside."""
    wanted = scene.answers[0].encode()
    entries = [{"name": tail(p), "size": float(len(scene.tree[p].content)), "_path": p} for p in paths(scene)]
    return listing((e for e in entries if ".t" in e["name"] or ".zip" in e["name"]), lambda e: wanted_in(scene, e, wanted))


def wanted_in(scene: Scenario, entry: dict, wanted: bytes) -> bool:
    return wanted in scene.tree[entry["_path"]].content  # archives are stored, so that the text stands in them


TERMINAL: dict[str, Callable[[Scenario], Listing | None]] = {
    "git-find": found_commit,
    "git-restore": deleting_commit,
    "largest": largest_files,
    "checksums": changed_files,
    "duplicates": copies,
    "modes": programs,
    "lists": names_in_first_list,
    "crontab": due_jobs,
    "csv": paid_rows,
    "unpack": archives,
}

# SQL: the values of the column that the answer is in


@lru_cache(maxsize=4)
def made(id: str, **options):
    return agentgym.make(id, **options)


def sql(number: int, difficulty: int) -> Listing | None:
    """The rows of the shown database; the one text of the answer is among a column's."""
    task = made("rlvr/SQL-v0").numbered(number, difficulty=difficulty)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(instances(task.data)[0])
        gold = connection.execute(task.data["gold"]).fetchall()
        answers = {row[0] for row in gold if isinstance(row[0], str)}
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = connection.execute(f"SELECT * FROM {table}")
            columns = list(zip(*cursor.fetchall(), strict=True))
            for column in columns if answers else ():
                if answers <= set(column):
                    return values([text for text in column if text is not None], answers)
    return None


# Search: the entities of the answer's kind


def search(number: int, difficulty: int) -> Listing | None:
    env = made("rlvr/Search-v0")
    task = env.numbered(number, difficulty=difficulty)
    place = world(task.data["world"], env.split_of(task), difficulty)
    answer = task.data["answers"][0]
    if answer not in place.kinds:
        return None
    texts = {document.title: document.text for document in place.corpus.documents}
    everything = " ".join(texts.values())
    entries = [
        {"title": name, "length": len(texts[name]), "mentions": everything.count(name)}
        for name, kind in place.entities
        if kind == place.kinds[answer]
    ]
    return listing(entries, lambda one: one["title"] == answer)


# Desk: the customer's rows

SPOKEN_OF = {"kind", "thing"}
"""Fields that a matter is about: a driver is added to a contract for a car, and the customer says so."""


def desk(domain: str, number: int, difficulty: int) -> Listing | None:
    """The customer's rows, as a list shows them."""
    data = draw(generator("leaks", domain, number), difficulty, [domain])
    rows = sorted(data["tables"][DOMAINS[domain].table].items())
    mine = [{"_ref": ref, **row} for ref, row in rows if row["customer_id"] == data["customer"]]
    plain_fields = {key for key, value in mine[0].items() if not isinstance(value, list | dict)} - SPOKEN_OF
    entries = [{key: row[key] for key in mine[0] if key in plain_fields} for row in mine]
    return listing(entries, lambda one: one["_ref"] == data["references"][0])


def namesakes(number: int, difficulty: int) -> Listing | None:
    """The customers whom `find_customer` lists for the caller's name."""
    data = draw(generator("leaks", "namesakes", number), difficulty, sorted(DOMAINS))
    desk = DOMAINS[data["domain"]](Database(data["tables"], {}, set()), data["rules"])
    ids = [line.partition(":")[0] for line in desk.find_customer(data["who"]["name"]).splitlines()]
    return listing(({"id": id} for id in ids), lambda one: one["id"] == data["customer"])


# Web: the rows that a task changes, or the column that its answer is in

AMONG: dict[str, Callable[[dict, EpisodeState], bool]] = {
    "calendar-delete": lambda row, state: (
        row.get("day", "") >= f"{state.now:%Y-%m-%d}" and row["organiser"] == state.me.username
    ),
    "tracker-merge": lambda row, state: row.get("state") == "open" and row.get("pipeline") == "passed",
}
"""Whether a row is one that a family's instruction can speak of: my events from today on; what can be merged at all."""
plain = lru_cache(maxsize=1 << 16)(read_plainly)  # of whole tables, task after task


def web(family: TaskFamily, number: int, difficulty: int) -> Listing | None:
    _, data = family.draw_one(generator("leaks", number), difficulty, True)  # families of a number share their sites
    state = EpisodeState(data["seed"], data["size"])
    try:
        return _answer_of(family, state, data["answers"][0]) if data["answers"] else _changed_by(family, state, data["ask"])
    finally:
        state.close()


def _tables(family: TaskFamily, state: EpisodeState) -> dict[tuple[str, str], list[dict]]:
    found = {}
    for site in family.sites:
        names = state.rows(site, "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'session' ORDER BY name")
        for (name,) in names:
            rows = state.rows(site, f'SELECT rowid AS _row, * FROM "{name}" ORDER BY rowid')
            found[site, name] = [dict(row) for row in rows]
    return found


def _answer_of(family: TaskFamily, state: EpisodeState, answer: str) -> Listing | None:
    if answer.replace(".", "").isdigit():
        return None  # an amount or a count, which no list has
    people = {person.username: person.name for person in state.setting.people}
    for rows in _tables(family, state).values():
        for name in rows[0] if rows else ():
            column = [people.get(text, text) for row in rows if isinstance(text := row[name], str)]
            same = [text for text in column if plain(text) == plain(answer)]
            if same:
                return values(column, same[:1])
    return None


def _changed_by(family: TaskFamily, state: EpisodeState, ask: dict) -> Listing | None:
    """The rows that the task changes or deletes; where it only adds rows, those that the added ones point to."""
    before = _tables(family, state)
    family.effect(state, ask)
    after = _tables(family, state)
    pointed: dict[tuple[str, str], set[int]] = {}  # all of them: the first of several is the first of the list too
    for (site, name), rows in before.items():
        left = {row["_row"]: row for row in after[site, name]}
        changed = {row["_row"] for row in rows if left.get(row["_row"]) != row}
        among = AMONG.get(family.name)
        if found := _rows([row for row in rows if not among or among(row, state)], changed):
            return found
        for row in [row for row in left.values() if row["_row"] not in {one["_row"] for one in rows}]:
            for column, value in row.items():
                if (site, column) in before and isinstance(value, int):
                    pointed.setdefault((site, column), set()).add(value)
    return next((found for table, right in pointed.items() if (found := _rows(before[table], right))), None)


def _rows(rows: list[dict], right: set[int]) -> Listing | None:
    shown_rows = [{key: value for key, value in row.items() if isinstance(value, str) or key == "_row"} for row in rows]
    return listing(shown_rows, lambda row: row["_row"] in right)


# Shop, TwentyQuestions, Wordle


def shop(number: int, difficulty: int) -> Listing | None:
    """The products of the kind that is asked for."""
    env = made("rlvr/Shop-v0", difficulty=difficulty)
    task = env.numbered(number)
    goods = env.catalogue(difficulty)
    query = goods.by_asin[task.data["asin"].lower()].query
    entries = [
        {"asin": one.asin, "title": one.title, "price": one.price_tag, "about": one.description, "options": len(one.options)}
        for one in goods.products
        if one.query == query
    ]
    return listing(entries, lambda one: one["asin"] == task.data["asin"])


def creatures(number: int, difficulty: int) -> Listing | None:
    data = made("rlvr/TwentyQuestions-v0").numbered(number, difficulty=difficulty).data
    entries = [{"name": name, "first": kind[0], "properties": " ".join(kind)} for name, kind in data["creatures"]]
    return listing(entries, lambda one: one["name"] == data["meant"])


@lru_cache(maxsize=1)
def _defects() -> list:
    """Return the tasks of repositories with one changed file, those of one split together."""
    found = [one for one in made("rlvr/SWE-v0").library.items if len({edit.path for edit in one.bug}) == 1]
    return sorted(found, key=lambda one: one.split, reverse=True)  # train, test: other repositories in each half


def swe(number: int, difficulty: int) -> Listing | None:
    """The lines of the file that holds the defect."""
    defects = _defects()
    if number >= len(defects):
        return None
    broken = {line.strip() for edit in defects[number].bug for line in edit.new.splitlines()}
    sound = {line.strip() for edit in defects[number].bug for line in edit.old.splitlines()}
    lines = defects[number].mutated()[defects[number].bug[0].path].decode().splitlines()
    entries = [{"line": line.strip(), "indent": len(line) - len(line.lstrip())} for line in lines if line.strip()]
    return listing(entries, lambda one: one["line"] in broken - sound)


FAMILIES: dict[str, Draw] = {
    **{f"terminal {name}": partial(terminal, name, entries) for name, entries in TERMINAL.items()},
    "sql": sql,
    "search": search,
    **{f"desk {name}": partial(desk, name) for name in DOMAINS},
    "desk namesakes": namesakes,
    "shop": shop,
    "twenty questions": creatures,
    "swe": swe,
    **{name: partial(web, family) for name, family in web_families().items() if name != "forum-profile"},  # "my profile"
}
