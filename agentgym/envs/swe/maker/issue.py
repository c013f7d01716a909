"""The issue text for the agent: calls, their results and the expected results, taken from failing tests."""

from collections.abc import Mapping, Sequence

from agentgym.core.seeding import derive
from agentgym.envs.swe.maker.observation import SHORT, Observation, observe
from agentgym.envs.swe.tasks.suite import function_of

MOST = 3
"""Maximum observations in an issue."""
MOST_LINES = 50
"""Maximum line feeds in the code of an issue; the first observation that exceeds it and all later ones are left out."""
OPENINGS = {
    "value": ("Wrong result from {subject}", "{subject} returns the wrong thing", "Unexpected result of {subject}"),
    "error": ("{subject} raises an error", "Unexpected exception from {subject}", "{subject} fails"),
    "silent": ("{subject} accepts input that it should reject", "No error from {subject}", "{subject} does not complain"),
    "message": ("Misleading error from {subject}", "Wrong error from {subject}", "{subject} raises the wrong error"),
}
VALUE = (
    "I get `{got}`, but the correct result is `{expected}`.",
    "This gives `{got}`. It should give `{expected}`.",
    "The result is `{got}`, but I would expect `{expected}`.",
)
UNKNOWN_VALUE = (
    "I expect `{expected}`, but I get something else.",
    "The result should be `{expected}`, but it is not.",
    "This should give `{expected}`, but it does not.",
)
TRUTH = (
    "I expect that to be {expected}, but it is not.",
    "That should be {expected}.",
    "It should be {expected}, but it is not.",
)
ERROR = ("It raises `{got}`.", "All I get is `{got}`.", "The call fails with `{got}`, although nothing is wrong with it.")
SILENT = (
    "I expect `{expected}` here, but nothing is raised.",
    "Nothing happens, but `{expected}` should be raised.",
    "This goes through without an error; it should raise `{expected}`.",
)
MESSAGE = (
    "The error should be `{expected}`, but it is `{got}`.",
    "I expect `{expected}` but get `{got}`.",
    "It raises `{got}` instead of `{expected}`.",
)
JOINTS = ("Another one:", "The same goes for this:", "Also:", "Perhaps related:")
ENDINGS = ("", "", "Everything else I use works.", "I have not looked into the cause.", "It used to work.")


def write_issue(tree: Mapping[str, bytes], tests: Sequence[str], messages: Mapping[str, str], order: Sequence[str]) -> str:
    """Return the issue text for some failing tests; empty if none of the failures can be described.

    `order` lists all tests of the repository in run order: a test's position determines its parameters.
    """
    observations: list[Observation] = []
    length = 0
    for test in _varied(tests):
        observed = observe(tree, test, messages.get(test, ""), order)
        if observed is None or observed.code in [observation.code for observation in observations]:
            continue
        length += observed.code.count("\n")
        if observations and length > MOST_LINES:
            break
        observations.append(observed)
        if len(observations) == MOST:
            break
    if not observations:
        return ""
    draw = _Draw(tests)
    first = observations[0]
    lines = [draw.of(OPENINGS[first.kind]).format(subject=f"`{first.subject}`"), "", *_described(first, draw)]
    for other in observations[1:]:
        lines += ["", draw.of(JOINTS), "", *_described(other, draw)]
    ending = draw.of(ENDINGS)
    return "\n".join([*lines, *(["", ending] if ending else [])]) + "\n"


def gives_away(issue: str, tests: Sequence[str], bug: Mapping[str, tuple[str, str]]) -> str:
    """Return the reason why an issue reveals too much: a test's name, a file with the bug, or a long line of the repair.

    Empty if the issue reveals none of these; lines of up to 12 characters do not count. `bug` has the clean and the broken
    text of each changed file.
    """
    for test in tests:
        if function_of(test)[-1] in issue:
            return f"the name of {test}"
    for path, (clean, broken) in bug.items():
        if path in issue:
            return f"the file {path}"
        for line in {line.strip() for line in clean.splitlines()} - {line.strip() for line in broken.splitlines()}:
            if len(line) > 12 and line in issue:
                return f"a line of the repair: {line}"
    return ""


class _Draw:
    """Chooses phrases; the choices depend only on the tests."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._tests, self._count = " ".join(tests), 0

    def of(self, choices: Sequence[str]) -> str:
        self._count += 1
        return choices[derive(self._tests, self._count) % len(choices)]


def _varied(tests: Sequence[str]) -> list[str]:
    """Return the tests in a new order: one test of each function, then the others."""
    seen: set[tuple[str, ...]] = set()
    first: list[str] = []
    for test in tests:
        if function_of(test) not in seen:
            seen.add(function_of(test))
            first.append(test)
    return [*first, *(test for test in tests if test not in first)]


def _described(observation: Observation, draw: _Draw) -> list[str]:
    sentences = {"error": ERROR, "silent": SILENT, "message": MESSAGE}.get(
        observation.kind, VALUE if observation.got else UNKNOWN_VALUE
    )
    if observation.kind == "value" and observation.expected in ("true", "false"):
        sentences = TRUTH
    sentence = draw.of(sentences).format(got=observation.got, expected=observation.expected)
    if "\n" not in observation.code and len(observation.code) < SHORT:
        return [f"`{observation.code}`: {sentence[0].lower() if not sentence.startswith('I ') else 'I'}{sentence[1:]}"]
    return ["```python", observation.code, "```", "", sentence]
