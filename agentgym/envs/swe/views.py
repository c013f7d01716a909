"""Tool output in the forms of mini-swe-agent (commands) and SWE-agent (files)."""

from agentgym.sandbox.protocol import ExitReason, Limits, Result

OUTPUT = 10_000
"""Maximum characters shown of a command's output; the middle of longer output is cut (mini-swe-agent)."""
WINDOW = 100
"""Lines of a file shown by default (SWE-agent)."""
LARGEST = 4 << 20
"""Maximum bytes of a file that the tools `view` and `edit` accept."""
LINE = 500
"""Maximum characters shown of a line."""
SUBMITTED = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""A command whose output has this first line submits the repair (mini-swe-agent)."""
TOO_LONG = """\
<warning>
The output of your last command was too long.
Please try a different command that produces less output.
If you're looking at a file you can try use head, tail or sed to view a smaller number of lines selectively.
If you're using grep or find and it produced too much output, you can use a more selective search pattern.
If you really need to see something from the full command's output, you can redirect output to a file and then search in \
that file.
</warning>"""


def command_output(result: Result, limits: Limits, timeout: float) -> str:
    """Return a command's output and how it ended, in mini-swe-agent's form."""
    ended = {
        "timeout": f"The command took longer than {timeout:g} s and was stopped.",
        "memory": f"The command needed more than {limits.memory >> 20} MiB of memory and was stopped.",
        "output": f"The command printed more than {limits.output} bytes and was stopped.",
        "killed": f"The command was killed by signal {-result.exit_code}.",
    }.get(result.reason, "")
    return formatted_output(result.text, result.exit_code if result.reason == ExitReason.EXIT else -1, ended)


def formatted_output(output: str, code: int, ended: str = "") -> str:
    """Return an output in mini-swe-agent's form; the middle of a long output is cut."""
    head = (f"<exception>{ended}</exception>\n" if ended else "") + f"<returncode>{code}</returncode>\n"
    if len(output) < OUTPUT:
        return f"{head}<output>\n{output}</output>"
    half = OUTPUT // 2
    return (
        f"{head}{TOO_LONG}<output_head>\n{output[:half]}\n</output_head>\n<elided_chars>\n"
        f"{len(output) - OUTPUT} characters elided\n</elided_chars>\n<output_tail>\n{output[-half:]}\n</output_tail>"
    )


def window(path: str, text: str, first: int, last: int) -> str:
    """Return up to 400 numbered lines of a file and the number of lines above and below, in SWE-agent's form."""
    lines = split_lines(text)
    first, last = max(first, 1), min(last, len(lines), first + 4 * WINDOW - 1)
    output = [f"[File: {path} ({len(lines)} lines total)]"]
    if first > 1:
        output.append(f"({first - 1} more lines above)")
    output += [f"{number}:{_cut(lines[number - 1])}" for number in range(first, last + 1)]
    if last < len(lines):
        output.append(f"({len(lines) - last} more lines below)")
    return "\n".join(output)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; a trailing newline does not add an empty line."""
    return text.removesuffix("\n").split("\n") if text else []


def _cut(line: str) -> str:
    return line if len(line) <= LINE else f"{line[:LINE]} … ({len(line) - LINE} more characters)"


def places(text: str, old: str) -> list[int]:
    """Return the line numbers, from 1, at which occurrences of `old` begin."""
    starts_found: list[int] = []
    line, counted, at = 1, 0, text.find(old)
    while at >= 0:
        line, counted = line + text.count("\n", counted, at), at
        starts_found.append(line)
        at = text.find(old, at + 1)
    return starts_found


def no_match(path: str, text: str, old: str) -> str:
    """Return the message that `old` was not found in a file, with the closest match."""
    lines, old_lines = split_lines(text), [line.strip() for line in split_lines(old)]
    message = f"No replacement was made: old was not found in {path}. It must match the file exactly, including whitespace"
    stripped = [line.strip() for line in lines]
    if any(old_lines):  # searched as one text, in linear time even with many partial matches
        whole = "\n".join(["", *stripped, ""])
        place = whole.find("\n".join(["", *old_lines, ""]))
        if place >= 0:
            number = whole.count("\n", 0, place)
            near = "\n".join(_cut(line) for line in lines[number : number + min(len(old_lines), 20)])
            return f"{message}. Ignoring whitespace at the ends of lines, it is at line {number + 1}:\n{near}"
    first = next((line for line in old_lines if line), "")
    at = [number for number, line in enumerate(stripped, 1) if first and line == first][:5]
    where = f" Its first line is at {'line' if len(at) == 1 else 'lines'} {', '.join(map(str, at))}." if at else ""
    return f"{message} and without line numbers.{where}"
