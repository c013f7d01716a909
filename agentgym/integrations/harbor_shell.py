"""Shell scripts that run a program in a container, feed it its input, and report its end on standard output."""

import base64
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.sandbox.protocol import Result, SandboxFault

INLINE = 60_000
"""Maximum bytes of input inside a command line; longer input is uploaded as a file."""
LONGEST = 100_000
"""Maximum characters of a command line that runs several programs; the kernel limits one argument to 128 KiB."""
PLACE = "/run/agentgym"
_RUN = r"""exec 2> /dev/null; umask 077; R=@place; mkdir -p $R; rm -f $R/out $R/err $R/late $R/o $R/e; @feed
cd @work || { echo 'no working folder'; exit; }
mkfifo $R/o $R/e; head -c @most < $R/o > $R/out & h=$!; head -c @most < $R/e > $R/err & g=$!
before=" $(cd /proc; echo [0-9]*) $h $g "
(umask 022; ulimit -c 0; ulimit -n @files; exec setsid @command) < $R/in > $R/o 2> $R/e & p=$!
(i=0; while [ $i -lt @tenths ] && kill -0 $p; do sleep 0.1; i=$((i + 1)); done
kill -0 $p && : > $R/late && kill -9 $p) > /dev/null 2>&1 & w=$!
wait $p 2> /dev/null; s=$?; late=0; [ -e $R/late ] && late=1; kill -9 $w 2> /dev/null
for i in 1 2 3 4 5 6; do left=; for d in /proc/[0-9]*; do q=${d#/proc/}; case $before in *" $q "*) ;; *)
[ $q = $$ ] || { kill -9 $q 2> /dev/null && left=1; }; esac; done; [ -n "$left" ] || break; done
wait $h $g; echo @nonce $s $late; base64 -w 0 $R/out; echo; base64 -w 0 $R/err; echo
"""
"""Script that root runs: it runs a program with its input, kills all its descendants, and reports how it ended.

Output beyond the cap closes the program's pipe.
"""


@dataclass(frozen=True)
class Job:
    """A program as a script for the container's shell."""

    nonce: str
    """Random word that starts the line that reports the program's end."""
    script: str
    stdin: bytes
    seconds: float
    cap: int


def job(run: str, stdin: bytes, seconds: float, cap: int, work: str, files: int) -> Job:
    """Return the job that runs a command line; its input is part of the script unless it exceeds INLINE bytes."""
    nonce = secrets.token_hex(8)
    feed = f"printf %s {base64.b64encode(stdin).decode()} | base64 -d > $R/in" if stdin else ": > $R/in"
    filled = {
        "place": PLACE,
        "feed": ":" if len(stdin) > INLINE else feed,
        "work": shlex.quote(work),
        "nonce": nonce,
        "files": str(files),
        "most": str(cap + 1),
        "tenths": str(max(round(10 * seconds), 1)),
        "command": run,
    }
    script = _RUN
    for name in [*(set(filled) - {"command"}), "command"]:  # last, because the command may contain @names
        script = script.replace(f"@{name}", filled[name])
    return Job(nonce, script, stdin, seconds, cap)


def of_python(code: str, stdin: bytes, *flags: str) -> tuple[list[str], bytes]:
    """Return the command and the standard input that run Python code; the code travels at the start of the input."""
    start = "import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv.pop(1))), '<string>', 'exec'))"
    text = code.encode()
    return ["python3", "-u", *flags, "-c", start, str(len(text))], text + stdin


def shell(jobs: Sequence[Job]) -> str:
    """Return the command that runs jobs one after another, each in a separate shell."""
    return "; ".join(f"bash -c {shlex.quote(job.script)}" for job in jobs)


def result(job: Job, answer: Any, seconds: float) -> Result:
    """Parse the result of a job from the output of the command that `shell` made.

    Raises:
        SandboxFault: the output does not report the program's end.
    """
    head, _, rest = str(answer.stdout or "").partition(f"{job.nonce} ")[2].partition("\n")
    try:
        status, late = (int(word) for word in head.split())
        out, err = (base64.b64decode(line) for line in rest.split("\n")[:2])
    except ValueError:
        output = str(answer.stdout or answer.stderr)[-300:]
        raise SandboxFault(f"the environment of Harbor did not say how a program ended ({output!r})") from None
    return _ended(status, bool(late), out, err, job.cap, seconds)


def _ended(status: int, late: bool, out: bytes, err: bytes, cap: int, seconds: float) -> Result:
    """Return the result of a program from its exit status, its output and whether the time limit ended it."""
    over = len(out) > cap or len(err) > cap
    reason = "output" if over else "timeout" if late else ""
    if 128 < status <= 192:
        status = 128 - status
    status = -9 if reason else status
    return Result(status, out[:cap], err[:cap], reason or ("killed" if status < 0 else "exit"), seconds)
