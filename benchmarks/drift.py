"""Tokens held by the gateway under real harnesses, and how many of them drifted: counted until there are enough.

python benchmarks/drift.py CLIENTS_PYTHON AGENTS_FOLDER [--tokens 1000000] [--only HARNESS …]

CLIENTS_PYTHON and AGENTS_FOLDER are what `./dev test-clients` installs (.venv-clients/bin/python and
.venv-clients/npm/node_modules/.bin). The engine draws tokens at random from the whole vocabulary, so that no text would be
encoded again as it was sampled, with calls of the harness's tools among them; a held token has drifted where the prompt of
the next request does not repeat it. Nothing that the random text says is carried out: tools answer with text of their own,
and the command-line agents are given `echo` alone.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / folder) for folder in ("fakes", "with_clients")]
import loopback  # noqa: E402
from native_talks import SOURCES, SURVEY  # noqa: E402

from agentgym.agents.tool_calls import FAMILIES  # noqa: E402
from agentgym.core.actions import Call  # noqa: E402
from agentgym.engines import Completion  # noqa: E402
from agentgym.engines.scripted import ScriptedEngine  # noqa: E402
from agentgym.gateway import App, Gateway  # noqa: E402

CALLS = {
    "bash": Call("bash", {"command": "echo 1"}),
    "Bash": Call("Bash", {"command": "echo 1", "description": "Look"}),
    "exec_command": Call("exec_command", {"cmd": "echo 1"}),
}


class Random(ScriptedEngine):
    """Says random tokens, then a call of the tool that its prompt offers, or the end."""

    def __init__(self, tokenizer: Any, turns: int, noise: int) -> None:
        super().__init__(lambda prompt, turn: "", tokenizer)
        self.turns, self.noise, self.rng, self.replies = turns, noise, random.Random(0), dict[str, int]()
        self.offered: dict[str, str] = {}
        self.stop = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self.plain = [id for id in range(len(tokenizer)) if id not in tokenizer.all_special_ids and id < self.stop]
        self.heads = {
            name: tokenizer.encode("".join(FAMILIES["hermes"].write(call)), add_special_tokens=False)
            for name, call in CALLS.items()
        }

    async def generate(self, prompt_ids: Any, sampling: Any, session: str, *, images: Any = (), watch: Any = None) -> Any:
        turn = self.replies[session] = self.replies.get(session, 0) + 1
        ids = self.rng.choices(self.plain, k=self.rng.randrange(1, self.noise))
        if session not in self.offered:
            text = self.tokenizer.decode(list(prompt_ids))
            names = ("exec_command", "Bash", "bash")
            self.offered[session] = next((name for name in names if f'"name": "{name}"' in text), "")
        offered = self.offered[session]
        if offered and turn % self.turns:
            ids += self.heads[offered]
        ids = [*ids, self.stop][: sampling.max_tokens]
        done = Completion(ids, [-1.0] * len(ids), "stop" if ids[-1] == self.stop else "length")
        for place, id in enumerate(ids):
            if watch and watch(id, -1.0):
                done = Completion(ids[: place + 1], done.logprobs[: place + 1], "stop")
                break
        return done


def harnesses(python: str, folder: Path) -> dict[str, Any]:
    """Return by name what starts a harness for a number: its command, environment and standard input."""
    import test_command_line as agents

    scripts = HERE.parent / "tests" / "with_clients"

    def command_line(name: str) -> Any:
        def start(url: str, number: int, home: Path) -> tuple[list[str], dict[str, str], str]:
            words, names = agents.AGENTS[name][0](url, f"x:{name}-{number}", home)
            return [str(folder / words[0]), *words[1:], "Look around."], {"HOME": str(home), **names}, ""

        return start

    def mini(url: str, number: int, home: Path) -> tuple[list[str], dict[str, str], str]:
        client_options = {"base_url": f"{url}/v1", "api_key": f"x:mini-{number}", "model": "policy", "steps": 12}
        lines = [
            {**client_options, "task": f"Fix {k}.", "api_key": f"x:mini-{number}-{k}", "textbased": False} for k in range(8)
        ]
        return [python, str(scripts / "mini_swe.py")], {}, "\n".join(map(json.dumps, lines)) + "\n"

    def script(name: str, *arguments: str) -> Any:
        return lambda url, number, home: ([python, str(scripts / name), f"{url}/v1", *arguments], {}, "")

    return {
        "openai": script("openai_chats.py", "32", "40"),
        "three APIs, openai-agents": script("wires.py", "4", "24"),
        "mini-swe-agent": mini,
        **{name: command_line(name) for name in ("claude", "codex") if (folder / name).exists()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("agents", type=Path)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", help="names of harnesses, as the output has them")
    arguments = parser.parse_args()
    started = harnesses(str(Path(arguments.python).absolute()), arguments.agents.absolute())
    started = {name: start for name, start in started.items() if not arguments.only or name in arguments.only}
    total: dict[str, dict[str, int]] = {name: {} for name in started}
    tokenizer = SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    for number in itertools.count():
        for name, start in started.items():
            with tempfile.TemporaryDirectory() as home:
                counts = asyncio.run(asyncio.to_thread(round_of, tokenizer, start, number, Path(home)))
            for key, value in counts.items():
                total[name][key] = total[name].get(key, 0) + value
            print(json.dumps({"round": number, "harness": name, **counts}), flush=True)
        held_tokens = sum(counts.get("held_tokens", 0) for counts in total.values())
        if held_tokens >= arguments.tokens:
            break
    print(f"{'harness':<28} {'sessions':>8} {'turns':>7} {'extended':>8} {'held tokens':>12} {'drifted':>8}")
    for name, counts in total.items():
        row = [counts.get(key, 0) for key in ("sessions", "turns", "extended", "held_tokens", "drifted_tokens")]
        print(f"{name:<28} {row[0]:>8} {row[1]:>7} {row[2]:>8} {row[3]:>12,} {row[4]:>8}")
    print(f"{held_tokens:,} held tokens, {sum(counts.get('drifted_tokens', 0) for counts in total.values())} drifted")


def round_of(tokenizer: Any, start: Any, number: int, home: Path) -> dict[str, int]:
    """Let a harness run once and return what the gateway holds of it."""
    gateway = Gateway(Random(tokenizer, 4, 120), "policy")
    gateway.name = "model" if "lambda" in start.__name__ else "policy"
    finished: list[Any] = []
    close = gateway.sessions._close
    gateway.sessions._close = lambda name, *a, **o: (
        finished.append(gateway.sessions.open[name].counts()) or close(name, *a, **o)
    )
    with loopback.serving(App(gateway)) as url:
        command, names, arguments = start(url, number, home)
        environment = {**os.environ, "PATH": os.environ["PATH"], **names}
        done = subprocess.run(
            command, input=arguments, cwd=home, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
    if done.returncode:
        print(f"{command[0]}: status {done.returncode}: {done.stderr[-600:]}", file=sys.stderr)
    counts = [*finished, *(session.counts() for session in gateway.sessions.open.values())]
    total = {key: sum(count[key] for count in counts) for key in ("turns", "held_tokens", "drifted_tokens", "rows")}
    return {"sessions": len(counts), "extended": total["turns"] - total["rows"], **total}


if __name__ == "__main__":
    main()
