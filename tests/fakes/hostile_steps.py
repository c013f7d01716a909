"""A program: play hostile actions in environments that run in the training process, and print their CPU time.

`python tests/fakes/hostile_steps.py EVERY ID ...` takes every so many of the actions and prints a line of JSON for each id:
its longest step, the action, how many there were. A step that takes `KILLED` seconds ends the program: SIGPROF counts its
CPU time, so a busy machine changes nothing.
"""

import json
import signal
import sys
import time

import agentgym

KILLED = 10.0
LENGTH = 99_000
PIECES = (
    *"x([{<9- \n\t'\"\\%_*./,é\u0301𝔘\ufdfa\u1e9e\u202e\x00",
    *("a ", "a b ", "1/", "1,", "%s", "a*", "(a+)+", "[a]", "{}", "()", "<a>", "</a>", "<answer>", "<search>", "</think>"),
    *('{"name": ', '{"a":[', "and ", "the ", "not ", "go to ", "take ", "a.b@c.d ", "2020-01-01 ", "\r\n", "\x1b["),
)
WHOLE = (
    "",
    "9" * 5000,
    "-" + "9" * 50_000,
    "1e" + "9" * 50_000,
    "0x" + "f" * 50_000,
    "9" * 4000 + "." + "9" * 4000,
    "(a+)+" * 10 + "a" * 50_000 + "!",
    "a" * 50_000 + "b" * 49_000,
    "".join(chr(0x4E00 + i % 20_000) for i in range(50_000)),
    " ".join(f"w{i}" for i in range(16_000)),
    " ".join(str(i) for i in range(16_000)),
    "\n".join(f"{i}: {i}" for i in range(8_000)),
)


COMMANDS = (
    "search[{}]",
    "click[{}]",
    "get {} 1",
    "get 1 {}",
    "craft 1 {} using 1 {}",
    "go to {}",
    "put {} in/on {}",
    "<search>{}</search>",
    "<answer>{}</answer>",
    "<search>x</search><answer>{}</answer>",
)
"""Forms of commands that some environment reads."""


def texts():
    """Yield hostile texts of every kind."""
    yield from WHOLE
    for piece in PIECES:
        yield piece * (LENGTH // len(piece))


def actions(env):
    """Yield hostile actions: texts as they are, after the words that commands begin with, and as arguments of tools."""
    yield from texts()
    words = {command.split(" ")[0] for command in env.admissible() or ()}
    for word in sorted(words)[:12]:
        for text in texts():
            yield f"{word} {text}"[:100_000]
    for form in () if env.tools else COMMANDS:
        yield from (form.replace("{}", text[: 98_000 // form.count("{}")]) for text in texts())
    for tool in env.tools.values():
        names = tool.parameters.get("properties", {})
        yield from (f'{{"name": "{tool.name}", "arguments": {text}}}'[:100_000] for text in ("[" * 49_000, '{"a":' * 19_000))
        for text in texts():
            yield f"{tool.name}[{text[:98_000]}]"
            yield f"<{tool.name}>{text[:98_000]}</{tool.name}>"
            yield json.dumps({"name": tool.name, "arguments": dict.fromkeys(names, text[: 90_000 // max(len(names), 1)])})
        for value in ("9" * 4000, "-" + "9" * 4000, "1e999", "[" * 4000 + "]" * 4000, "null", "true"):
            body = ", ".join(f"{json.dumps(name)}: {value}" for name in names)
            yield f'{{"name": "{tool.name}", "arguments": {{{body}}}}}'


def main(every, ids):
    """Play the actions, beginning again whenever an episode is over."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for id in ids:
        env = agentgym.make(id)
        env.reset(seed=0, options={"task": 0, "horizon": 10_000})
        worst, of, count = 0.0, "", 0
        for action in list(dict.fromkeys(actions(env)))[::every]:
            print(json.dumps({"id": id, "about": action[:60]}), flush=True)
            signal.setitimer(signal.ITIMER_PROF, KILLED)
            started = time.process_time()
            over = env.step(action)[2:4]
            took = time.process_time() - started
            signal.setitimer(signal.ITIMER_PROF, 0)
            worst, of = max((worst, of), (took, action[:60]))
            count += 1
            if any(over):
                env.reset(seed=0, options={"task": 0, "horizon": 10_000})
        env.close()
        print(json.dumps({"id": id, "worst": worst, "action": of, "steps": count}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
