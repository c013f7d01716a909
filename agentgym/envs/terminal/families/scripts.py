"""Task families about programs to write or to repair, which are tested on hidden inputs."""

from collections.abc import Mapping, Sequence

from agentgym.envs.terminal.filters import FILTERS, program, source
from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, sample
from agentgym.envs.terminal.tree import Entry, file
from agentgym.envs.terminal.words import number, numbered

CASES = 4
"""Number of random inputs per filter, in addition to edge cases."""


def _hidden(commands: Sequence[str], fill: Rng, level: int) -> list[tuple[str, str]]:
    """Return (filter name, hidden input) pairs."""
    return [
        (name, text)
        for name in commands
        for text in (*FILTERS[name].edge_cases, *(FILTERS[name].draw(fill, 2 + level + 2 * n) for n in range(CASES)))
    ]


def _tried(final: Final, script: str, hidden: Sequence[tuple[str, str]]) -> Checks:
    for name, text in hidden:
        printed = final.run(f"python3 {script} {name}", text.encode())
        expected = FILTERS[name].work(text).encode()
        yield f"`python3 {script} {name}` answers as it should", printed.ok and printed.stdout.rstrip() == expected.rstrip()


def _order(commands: Sequence[str]) -> str:
    return "\n".join(f"- `{name}`: {FILTERS[name].spec}." for name in commands)


def _written(script: str, text: str) -> str:
    return f"cat > {script} <<'END'\n{text}END"


def _examples(commands: Sequence[str], top: str, fill: Rng) -> dict[str, Entry]:
    tree = dict[str, Entry]()
    for name in commands:
        text = FILTERS[name].draw(fill, 2)
        tree[f"{top}/{name}.in"] = file(text)
        tree[f"{top}/{name}.out"] = file(FILTERS[name].work(text))
    return tree


def _parroting(commands: Sequence[str], tree: Mapping[str, Entry], top: str) -> str:
    """Return a wrong program that prints the outputs of the given examples."""
    known = {name: tree[f"{top}/{name}.out"].content.decode() for name in commands}
    return f"import sys\nsys.stdout.write({known!r}[sys.argv[1]])\n"


def _chosen(ask: Rng, level: int) -> list[str]:
    return sample(ask, list(FILTERS), 1 + min(level, len(FILTERS) - 1))


@family("script")
def script(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: write a program whose commands are text filters."""
    commands, path, top = _chosen(ask, level), f"{numbered(ask, 'tool')}.py", numbered(ask, "examples")
    tree, hidden = _examples(commands, top, fill), _hidden(commands, fill, level)
    right = {name: source(name) for name in commands}

    def check(final: Final) -> Checks:
        yield from _tried(final, path, hidden)

    return Scenario(
        f"Write a Python program `{path}` (standard library only). `python3 {path} COMMAND` reads standard "
        "input and prints, "
        f"by COMMAND:\n{_order(commands)}\n`{top}` holds an example of input and output for each command. The program will "
        "be tried on other inputs; whitespace at the end of the output does not matter.",
        tree,
        (_written(path, program(right)),),
        {
            "only the examples": (_written(path, _parroting(commands, tree, top)),),
            "not quite": (_written(path, program({**right, commands[-1]: source(commands[-1], 0)})),),
            "prints what it reads": (_written(path, "import sys\nprint(sys.stdin.read())\n"),),
        },
        check,
        look=(f"head -8 {top}/*",),
        show=(f"for c in {' '.join(commands)}; do python3 {path} $c < {top}/$c.in | diff - {top}/$c.out; done",),
        changes=(path,),
    )


@family("repair")
def repair(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: repair a program with a bug in each of its commands; some bugs make a command run forever."""
    commands, path, top = _chosen(ask, level), f"{numbered(ask, 'tool')}.py", numbered(ask, "examples")
    tree, hidden = _examples(commands, top, fill), _hidden(commands, fill, level)
    bugs = {name: number(fill, 0, len(FILTERS[name].bugs) - 1) for name in commands}
    broken = {name: source(name, bug) for name, bug in bugs.items()}
    tree[path] = file(program(broken))
    right = {name: source(name) for name in commands}
    partly = pick(fill, commands)

    def check(final: Final) -> Checks:
        yield from _tried(final, path, hidden)

    return Scenario(
        f"`{path}` has bugs: some of its output is wrong, or it runs forever. Fix it. "
        f"`python3 {path} COMMAND` "
        f"should read standard input and print, by COMMAND:\n{_order(commands)}\n`{top}` holds an example of input and "
        "right output for each command. It will be tried on other inputs; whitespace at the end of the output does not "
        "matter.",
        tree,
        (_written(path, program(right)),),
        {
            "as it is": ("true",),
            "only the examples": (_written(path, _parroting(commands, tree, top)),),
            "all but one": (_written(path, program({**right, partly: broken[partly]})),),
        },
        check,
        look=(f"cat {path}", f"head -8 {top}/*"),
        show=(f"for c in {' '.join(commands)}; do python3 {path} $c < {top}/$c.in | diff - {top}/$c.out; done",),
        changes=(path,),
    )
