"""Task families about permissions, links and processes."""

from functools import partial

from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, sample, shuffled
from agentgym.envs.terminal.tree import Entry, file, folder, link
from agentgym.envs.terminal.words import THINGS, names, number, numbered, path, sentence


def _chmods(top: str, modes: dict[str, str], programs: str, keys: str = "*.key") -> str:
    """Return commands that set `modes`; `programs` is a Bash condition for programs, `keys` a pattern of key files."""
    return (
        f"find {top} -type d -exec chmod {modes['folders']} {{}} +\n"
        f"find {top} -type f -print0 | while IFS= read -r -d '' f; do\n"
        f'  if [[ $f == {keys} ]]; then chmod {modes["keys"]} "$f"\n'
        f'  elif {programs}; then chmod {modes["programs"]} "$f"\n'
        f'  else chmod {modes["rest"]} "$f"; fi\ndone'
    )


@family("modes")
def modes(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: set permissions by rules about the content of files rather than their names."""
    top = numbered(ask)
    of_folders, of_programs = pick(ask, ("755", "750", "711")), pick(ask, ("755", "750", "700"))
    of_keys, of_rest = pick(ask, ("600", "400")), pick(ask, ("644", "640", "604"))
    tree, expected = dict[str, Entry](), dict[str, int]()

    def put(name: str, content: str, mode: str) -> None:
        tree[f"{top}/{name}"] = file(content, pick(fill, (0o666, 0o777, 0o664, 0o775, 0o606)))
        expected[f"{top}/{name}"] = int(mode, 8)

    def put_any(content: str, mode: str, ending: str | None = None) -> None:
        """Put a file in a random folder; `ending` is its extension (None: random, unrelated to the content)."""
        ending = pick(fill, ("", ".sh", ".txt")) if ending is None else ending
        put(f"{path(fill, number(fill, 0, 1 + level))}{numbered(fill)}{ending}", content, mode)

    program, later = "#!/bin/sh\nexit 0\n", f"# {sentence(fill)}\n#!/bin/sh\n"
    for _ in range(6 + 4 * level):
        put_any(sentence(fill), of_rest)
    for place in range(2 + level):
        put_any(program, of_programs)
        put_any(later, of_rest, None if place else ".sh")
        put_any(sentence(fill), of_keys, ".key")
    put(f"{numbered(fill)}.key.txt", sentence(fill), of_rest)
    put(f".{numbered(fill)}", *pick(fill, ((program, of_programs), (sentence(fill), of_rest), (later, of_rest))))
    for name in [name for name in tree]:
        place = name.rpartition("/")[0]
        while place:
            tree.setdefault(place, folder(0o777))
            expected[place] = int(of_folders, 8)
            place = place.rpartition("/")[0]
    if level:
        tree[f"{top}/{numbered(fill)}"] = link("nowhere")

    def check(final: Final) -> Checks:
        for name, mode in expected.items():
            entry = final.tree.get(name)
            yield f"{name} has mode {mode:o}", entry is not None and entry.mode == mode

    rules = partial(_chmods, top, {"folders": of_folders, "programs": of_programs, "keys": of_keys, "rest": of_rest})
    first = '[ "$(head -c 2 "$f")" = "#!" ]'
    return Scenario(
        f"Set the permissions of `{top}` and of everything below it, hidden files included: {of_folders} for folders "
        f"(`{top}` itself included), {of_keys} for files whose names end in `.key`, {of_programs} for other files that "
        f"begin with `#!`, and {of_rest} for all other files. Leave the contents as they are.",
        tree,
        (rules(first),),
        {
            "programs by name": (rules("[[ $f == *.sh ]]"),),
            "anywhere in the file": (rules("grep -q '#!' \"$f\""),),
            "keys by part of the name": (rules(first, "*.key*"),),
            "one mode for all": (f"chmod -R {of_rest} {top}", f"chmod {of_folders} {top}"),
        },
        check,
        look=(f"find {top} -printf '%m %y %p\\n' | sort -k3", f"head -c 20 $(find {top} -type f | sort | head -5)"),
        show=(f"find {top} -printf '%m %y %p\\n' | sort -k3",),
    )


@family("links")
def links(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: link to the highest version of each program; versions compare as numbers, not as text or by time."""
    top, name = numbered(ask), pick(ask, ("current", "latest", "stable"))
    tree, expected = dict[str, Entry](), dict[str, str]()
    for program in sample(fill, THINGS, 2 + 2 * level):
        major, minor = number(fill, 1, 3), number(fill, 10, 14)
        versions: list[tuple[int, ...]] = [(major, minor), (major, 9), (major, 2), (major - 1, 30)]
        if level:
            versions.append((major, minor, 0, number(fill, 1, 8)))
        for version in shuffled(fill, versions):
            version_text = ".".join(map(str, version))
            age = 1_600_000_000 + number(fill, 0, 9_000_000)
            tree[f"{top}/{program}/{program}-{version_text}/VERSION"] = file(f"{version_text}\n", time=age)
        highest = ".".join(map(str, max(versions)))
        expected[f"{top}/{program}/{name}"] = f"{top}/{program}/{program}-{highest}"
        tree[f"{top}/{program}/{name}"] = link(f"{program}-{major - 1}.30")
    gone = sorted(expected)[0]
    del tree[gone]

    def check(final: Final) -> Checks:
        for where, target in expected.items():
            entry = final.tree.get(where)
            yield (
                f"{where} is a link to the highest version",
                (entry is not None and entry.kind == "link" and final.leads_to(where) == target),
            )

    def loop(choice: str, make: str = "ln -sfn") -> str:
        return f'for d in {top}/*/; do\n  p=$(basename "$d")\n  (cd "$d" && {make} "$({choice})" {name})\ndone'

    return Scenario(
        f"Each folder in `{top}` belongs to a program and holds folders `PROGRAM-VERSION`. In each one, create (or correct) "
        f"the symbolic link `{name}`, so that it leads to the folder with the highest version: versions are compared number "
        "by number, so 1.10 is higher than 1.9.",
        tree,
        (loop('ls -d "$p"-*/ | tr -d / | sort -V | tail -1'),),
        {
            "by letters": (loop('ls -d "$p"-*/ | tr -d / | LC_ALL=C sort | tail -1'),),
            "a copy": (f"rm -f {top}/*/{name}", loop('ls -d "$p"-*/ | tr -d / | sort -V | tail -1', "cp -r")),
            "only where there is none": (loop('ls -d "$p"-*/ | tr -d / | sort -V | tail -1', "ln -s"),),
            "into the old one": (loop('ls -d "$p"-*/ | tr -d / | sort -V | tail -1', "ln -sf"),),
        },
        check,
        look=(f"ls -l {top}/*",),
        show=(f"ls -l {top}/*/{name}",),
        changes=sorted(expected),
    )


def _runner(top: str, code: int, start: str, wait: str, end: str) -> str:
    """Return the command that writes a script to run the workers.

    `start`, `wait` and `end` are Bash: starting a worker, waiting for a worker, and the script's exit status. `code` is the
    value of `$failed` if a worker fails.
    """
    return (
        f"cat > {top}/run.sh <<'END'\n#!/bin/bash\nmkdir -p out\nfailed=0\nfor w in workers/*.sh; do\n "
        ' n=$(basename "$w")\n'
        f'  {start}\n  pids[${{#pids[@]}}]=$!\n  names[${{#names[@]}}]=$n\ndone\nfor i in "${{!pids[@]}}"; do\n'
        f'  {wait}\n  s=$?\n  echo "${{names[$i]}} $s"\n  [ $s -eq 0 ] || failed={code}\ndone\nexit {end}\nEND'
    )


def _hidden_workers(fill: Rng, level: int, folder: str) -> tuple[dict[str, bytes], list[str], dict[str, str]]:
    """Return hidden workers (path -> script), the expected lines `NAME.sh STATUS`, and the output of each worker by name.

    From level 1 on, one worker runs forever.
    """
    scripts, statuses, outputs = dict[str, bytes](), list[str](), dict[str, str]()
    for place, name in enumerate(sorted(names(fill, 4 + min(level, 8)))):
        status, words = (number(fill, 1, 99), 0, 0)[place % 3], sentence(fill, 3)
        scripts[f"{folder}/{name}.sh"] = f"sleep 0.{place}\necho {words}\nexit {status}\n".encode()
        statuses.append(f"{name}.sh {status}")
        outputs[name] = words
    if level >= 1:
        scripts[f"{folder}/endless.sh"] = b"echo begun\nwhile true; do sleep 1; done\n"
        statuses.append("endless.sh 124")
        outputs["endless"] = "begun"
    return scripts, statuses, outputs


@family("workers")
def workers(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: repair a script that starts programs without waiting; from level 1 on, one program runs forever."""
    top, limit, timed = numbered(ask), number(ask, 2, 3), level >= 1
    code = number(ask, 3, 9)
    tree: dict[str, Entry] = {
        f"{top}/run.sh": file(
            "#!/bin/bash\n# Runs the workers of this folder.\nmkdir -p out\nfor w in workers/*.sh; do\n"
            '  n=$(basename "$w")\n  bash "$w" > "out/$n" &\n  echo "$n $?"\ndone\nexit 0\n',
            0o755,
        )
    }
    for place, name in enumerate(names(fill, 3 + min(level, 8))):
        tree[f"{top}/workers/{name}.sh"] = file(f"sleep 0.1\necho {sentence(fill, 2)}\nexit {place % 2}\n", 0o755)
    hidden, statuses, outputs = _hidden_workers(fill, level, f"{top}/workers")
    calm = {f"{top}/workers/{name}.sh": b"sleep 0.1\necho fine\n" for name in sorted(outputs)}

    def check(final: Final) -> Checks:
        clear = f'cd {top}; rm -rf out workers; mv ../.hidden/{top}/workers .; bash run.sh; echo "exit $?"; tail -n +1 out/*'
        printed = final.prints(clear, files={f".hidden/{path}": content for path, content in hidden.items()})
        rows = "\n".join(f"==> out/{name}.sh <==\n{words}\n" for name, words in sorted(outputs.items()))
        expected = "\n".join([*sorted(statuses), f"exit {code}", rows]).rstrip()
        yield "with workers that fail it says and leaves what it should", printed == expected
        printed = final.prints(clear.partition("; tail")[0], files={f".hidden/{path}": text for path, text in calm.items()})
        expected = "\n".join([*(f"{name}.sh 0" for name in sorted(outputs)), "exit 0"])
        yield "with workers that do well it ends with 0", printed == expected

    bounded = f"timeout {limit} bash" if timed else "bash"
    rule = (
        f" A worker that has not ended after {limit} seconds is to be ended; its exit status counts as 124." if timed else ""
    )

    script = partial(_runner, top, code)
    start, wait = f'{bounded} "$w" > "out/$n" &', 'wait "${pids[$i]}"'
    return Scenario(
        f"`{top}/run.sh` is broken: it does not wait for the workers it starts. Repair it. Run as `bash "
        f"run.sh` in `{top}`, it "
        "should run every script `workers/*.sh` with bash (whichever exist), with its output in `out/NAME.sh`; when all "
        "have ended, it has printed one line for each, `NAME.sh STATUS`, in the order of the names, with the worker's exit "
        f"status, and nothing else. It ends with exit status {code} if any worker's status was not 0, else with 0.{rule} It "
        "will be tried with other workers.",
        tree,
        (script(start, wait, "$failed"),),
        {
            "as it was": (f"bash -n {top}/run.sh",),
            "the status of the last": (script(start, wait, "$s"),),
            "ends well always": (script(start, wait, "0"),),
            "waits for all at once": (script(start, "wait", "$failed"),),
        },
        check,
        look=(f"cat {top}/run.sh; head -5 {top}/workers/*.sh",),
        show=(f"cd {top} && bash run.sh; echo $?; rm -rf out; cd ..",),
        changes=(f"{top}/run.sh", f"{top}/out"),
    )
