"""CPU seconds of readers and graders against another commit, in interleaved pairs; writes a table.

Run `python benchmarks/readers.py --before CHECKOUT` (about three minutes), where CHECKOUT is `git worktree add --detach
FOLDER COMMIT`. Each round starts one process per commit; the two take turns, call by call, on the same files, with the
memory of files emptied before each call. `first call` is the first of a process, with its late imports.
"""

import argparse
import gc
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

HERE = Path(__file__).resolve().parents[1]
Part = Callable[[], object]


def programs() -> dict[str, list[dict[str, Any]]]:
    """Return rows of programming tasks by file: HumanEval's layout, MBPP's, LiveCodeBench's and our own."""
    body = "".join(f"    for item{n} in values:\n        total += item{n} * {n} if item{n} > {n} else 0\n" for n in range(3))
    humaneval, mbpp, contests, own = [], [], [], []
    for n in range(164):
        doc = f'    """ Sum the values of list {n}.\n    >>> f{n}([1, 2])\n    3\n    >>> f{n}([])\n    0\n    """\n'
        tests = "".join(f"    assert candidate([{k}, {n}, {k + n}]) == {k + n}\n" for k in range(8))
        humaneval.append(
            {
                "task_id": f"H/{n}",
                "prompt": f"from typing import List\n\n\ndef f{n}(values: List[int]) -> int:\n{doc}",
                "canonical_solution": f"    total = 0\n{body}    return total\n",
                "test": f"\n\nMETADATA = {{}}\n\n\ndef check(candidate):\n{tests}\n",
                "entry_point": f"f{n}",
            }
        )
        code = f"import math\ndef g{n}(values):\n    total = 0\n{body}    return math.floor(total)\n"
        calls = [f"assert g{n}([{k}, {n}]) == {k}" for k in range(3)]
        mbpp.append(
            {"task_id": 600 + n, "text": f"Write g{n}.", "code": code, "test_list": calls, "challenge_test_list": []}
        )
        case = [{"input": f"{n} {k}\n", "output": f"{n + k}\n", "testtype": "stdin"} for k in range(6)]
        contests.append(
            {
                "question_title": f"Sum {n}",
                "question_content": f"Add the two numbers of line {n}. " * 20,
                "question_id": f"L{n}",
                "platform": "atcoder",
                "starter_code": "",
                "public_test_cases": json.dumps(case[:2]),
                "private_test_cases": json.dumps(case),
                "metadata": "{}",
            }
        )
        own.append(
            {"id": f"o{n}", "statement": "Add.", "hidden": [{"input": f"{k}\n", "output": f"{k}\n"} for k in range(8)]}
        )
    return {"humaneval": humaneval, "mbpp": mbpp, "livecodebench": contests, "own": own}


def questions() -> dict[str, list[dict[str, Any]]]:
    """Return rows of GSM8K, MATH, HotpotQA, FlashRAG's lines, passages and SWE-bench."""
    rows: dict[str, list[dict[str, Any]]] = {
        "gsm8k": [],
        "math": [],
        "flashrag": [],
        "hotpot": [],
        "passages": [],
        "swe": [],
    }
    for n in range(400):
        worked = f"She has {n} + 3 = <<{n}+3={n + 3}>>{n + 3} apples. " * 4
        rows["gsm8k"].append(
            {"question": f"Ann has {n} apples and gets 3. How many? " * 3, "answer": f"{worked}\n#### {n + 3}"}
        )
        box = f"So $x^2 = {n}$ and the answer is $\\boxed{{\\frac{{{n}}}{{{n + 1}}}}}$."
        rows["math"].append({"problem": f"Find $x_{n}$.", "level": "Level 3", "type": "Algebra", "solution": box * 3})
        facts = {"title": [f"Title {n}", f"Title {n + 1}"], "sent_id": [0, 0]}
        rows["flashrag"].append(
            {"id": f"q{n}", "question": f"Who wrote book {n}?", "golden_answers": [f"Name {n}", "N."], "metadata": {}}
        )
        context = [[f"Title {n + k}", [f"Sentence {s} of {n + k}. " * 5 for s in range(4)]] for k in range(10)]
        rows["hotpot"].append(
            {
                "_id": f"h{n}",
                "question": f"Where was author {n} born?",
                "answer": f"Town {n}",
                "type": "bridge",
                "level": "hard",
                "supporting_facts": list(map(list, zip(*facts.values(), strict=True))),
                "context": context,
            }
        )
        rows["passages"].append({"id": str(n), "contents": f'"Title {n}"\n' + f"The town of Name{n} lies at a river. " * 20})
        patch = f"diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a = {n}\n+a = {n + 1}\n"
        rows["swe"].append(
            {
                "repo": "pallets/flask",
                "instance_id": f"pallets__flask-{n}",
                "base_commit": "0" * 40,
                "patch": patch,
                "test_patch": patch.replace("m.py", "tests/test_m.py"),
                "problem_statement": f"Issue {n}. " * 50,
                "hints_text": "",
                "created_at": "2023-01-01",
                "version": "2.3",
                "FAIL_TO_PASS": json.dumps([f"tests/test_m.py::test_{n}"]),
                "PASS_TO_PASS": json.dumps([f"tests/test_m.py::test_{k}" for k in range(40)]),
                "image": "img:1",
                "eval_script": "pytest",
                "log_parser": "parse_log_pytest",
                "eval_type": "pass_and_fail",
            }
        )
    return rows


def write_files(folder: Path) -> None:
    """Write the files that both commits read."""
    for name, rows in {**programs(), **questions()}.items():
        if name == "hotpot":
            (folder / "hotpot.json").write_text(json.dumps(rows))
        else:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    genuine = Path(os.environ.get("AGENTGYM_DATA", ".")) / "HumanEval.jsonl.gz"
    if genuine.is_file():
        (folder / "genuine.jsonl").write_bytes(gzip.decompress(genuine.read_bytes()))
    base = folder / "spider" / "database" / "shop"
    base.mkdir(parents=True)
    with sqlite3.connect(base / "shop.sqlite") as database:
        database.execute("CREATE TABLE goods (id INTEGER, name TEXT, price REAL)")
        database.executemany("INSERT INTO goods VALUES (?, ?, ?)", [(n, f"n{n}", n / 4) for n in range(50)])
    question_rows = [
        {"db_id": "shop", "question": f"Names above {n}?", "query": f"SELECT name FROM goods WHERE price > {n}"}
        for n in range(200)
    ]
    (folder / "spider" / "dev.json").write_text(json.dumps(question_rows))


def readers(folder: Path) -> dict[str, Part]:
    """Return one call of each reader by name."""
    from agentgym.envs.code import files as code
    from agentgym.envs.math import files as math
    from agentgym.envs.search import files as search
    from agentgym.envs.sql import files as sql
    from agentgym.envs.swe.bench import rows as swe
    from agentgym.episodes.episode import read_episodes

    def emptied(memory: Any, read: Part) -> Part:
        def call() -> object:
            memory.cache_clear()
            return read()

        return call

    def of_code(name: str) -> Part:
        return emptied(code._loaded, lambda: code.load(str(folder / f"{name}.jsonl")))

    def of_math(name: str) -> Part:
        return emptied(math._files, lambda: math.load(str(folder / f"{name}.jsonl")))

    passages, question_file = str(folder / "passages.jsonl"), str(folder / "flashrag.jsonl")
    parts = {f"read {name}": of_code(name) for name in ("humaneval", "genuine", "mbpp", "livecodebench", "own")}
    if not (folder / "genuine.jsonl").is_file():
        del parts["read genuine"]
    return parts | {
        "read gsm8k": of_math("gsm8k"),
        "read math": of_math("math"),
        "read hotpot": emptied(search._hotpot, lambda: search.load_hotpot(str(folder / "hotpot.json"))),
        "read flashrag": emptied(search._lines, lambda: search.load_lines(passages, question_file)),
        "read spider": emptied(sql._read, lambda: sql.load(str(folder / "spider"), 0)),
        "read swe": lambda: swe.read_rows(folder / "swe.jsonl"),
        "read episodes": lambda: read_episodes(folder / "episodes.jsonl"),
        "read episodes with tokens": lambda: read_episodes(folder / "tokens.jsonl"),
    }


def graders() -> dict[str, Part]:
    """Return many judgments of each grader by name."""
    from agentgym.agents import tool_calls
    from agentgym.core.actions import Tool, parse_call
    from agentgym.envs.code.grading import compare
    from agentgym.retrieval.documents import words
    from agentgym.rewards import exact_match, expressions, numeric, sql_result
    from agentgym.rewards.programs.values import pack

    numbers = [f"${n},{n:03d}.50" if n % 2 else f"\\frac{{{n}}}{{{n + 1}}}" for n in range(100)]
    read = [numeric.read_number(text) for text in numbers]
    pairs = [(f"x^2+{n}x", f"{n}x+x^2") for n in range(10)]
    rows = [(n, f"name {n}", n / 3) for n in range(300)]
    value, other = pack([[n, [n, {"a": n}]] for n in range(200)]), pack([[n, (n, {"a": n})] for n in range(200)])
    lines = "\n".join(f"{n} {n / 7:.6f}" for n in range(200))
    text = "The Quick brown fox, of St. Ives (Cornwall); it jumps over 1,234 dogs. " * 20
    tools = {
        "find": Tool(
            "find",
            "Find.",
            {
                "type": "object",
                "properties": {"query": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        )
    }
    calls = {
        "hermes": '<tool_call>\n{"name": "find", "arguments": {"query": "a b c", "count": 3}}\n</tool_call>',
        "glm": "<tool_call>find\n<arg_key>query</arg_key>\n<arg_value>a b c</arg_value>\n<arg_key>count</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        "mistral": '[TOOL_CALLS] [{"name": "find", "arguments": {"query": "a b c", "count": 3}}]',
        "xml": "<tool_call>\n<function=find>\n<parameter=query>\na b c\n</parameter>\n<parameter=count>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
    }

    def many(count: int, grade: Part) -> Part:
        return lambda: [grade() for _ in range(count)]

    parts: dict[str, Part] = {
        "numbers": lambda: [numeric.same_number(one, one) for one in map(numeric.read_number, numbers) if one and read],
        "exact match": many(200, lambda: exact_match.exact_match("the Quick fox", ["Slow fox", "quick fox"])),
        "f1": many(200, lambda: exact_match.f1("the Quick brown fox", ["Slow fox", "quick fox of Rome"])),
        "SQL result": lambda: sql_result.same_result(rows, rows[::-1], ordered=False),
        "code values": lambda: compare.equal(value, other, 1e-6),
        "code lines": many(50, lambda: compare.same_lines(lines, lines + "\n")),
        "code words": many(50, lambda: compare.same_words(lines, lines + "\n")),
        "words of a text": many(20, lambda: words(text)),
    }
    if expressions.installed():
        parts["expressions"] = lambda: [expressions.compare(one, two) for one, two in pairs]
    for name, reply in calls.items():
        read_calls = tool_calls.FAMILIES[name].read

        def call(reply: str = reply, read_calls: Any = read_calls) -> object:
            return [parse_call(attempt.action, tools) for attempt in read_calls(reply, tools)]

        parts[f"call of {name}"] = many(200, call)
    return parts


def steps() -> dict[str, Part]:
    """Return whole episodes of small environments: what a step costs with its verdict."""
    import agentgym

    def play(name: str, actions: list[str]) -> Part:
        env = agentgym.make(name)

        def call() -> object:
            env.reset(seed=3)
            for action in actions:
                if any(env.step(action)[2:4]):
                    break
            return env

        return call

    return {
        "steps of GuessNumber": play("guessnumber", [str(n) for n in range(100)]),
        "steps of Household": play("household", ["look", "inventory", "go to desk 1", "nonsense"] * 12),
        "steps of Search": play("search", ["search[river]", "open[1]", "nonsense"] * 5),
    }


class Checkout:
    """A process that has imported the package of one commit, and runs a part when asked."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        variables = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-W", "ignore", __file__, "--child", str(folder)]
        self._process = subprocess.Popen(
            command, env=variables, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names: list[str] = self._line()

    def seconds(self, name: str) -> float:
        """Return the CPU seconds of one call of a part."""
        assert self._process.stdin
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve(folder: Path) -> None:
    """Run each part that a line of standard input names, and print the CPU seconds that it took."""
    parts = {**readers(folder), **graders(), **steps()}
    print(json.dumps(list(parts)), flush=True)
    for line in sys.stdin:
        part = parts[line.strip()]
        gc.collect()
        gc.disable()
        started = time.process_time()
        part()
        cpu_seconds = time.process_time() - started
        gc.enable()
        print(json.dumps(cpu_seconds), flush=True)


def record(folder: Path, checkout: Path) -> None:
    """Write episodes, by the older commit: both read its files."""
    command = [sys.executable, "-m", "agentgym", "eval", "household", "--policy", "expert", "--tasks", "40", "--out", "run"]
    variables = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=variables, cwd=folder, check=True, capture_output=True)
    lines = (folder / "run" / "episodes.jsonl").read_text().splitlines()
    (folder / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with (folder / "tokens.jsonl").open("w") as file:
        for line in lines:
            file.write(json.dumps(with_tokens(json.loads(line))) + "\n")


def with_tokens(episode: dict[str, Any]) -> dict[str, Any]:
    """Return an episode as of an agent with tokens: prompts of 600 and then 60 new ones, replies of 40."""
    before = 0
    for number, turn in enumerate(episode["turns"]):
        new = 60 if number else 600
        turn["prompt_ids"] = [before, [(number * 7 + place) % 30_000 for place in range(new)]]
        turn["output_ids"] = [(number * 13 + place) % 30_000 for place in range(40)]
        turn["logprobs"] = [-0.1234567 * (place + 1) for place in range(40)]
        before += new + 40
    return episode


def main() -> None:
    """Measure both commits in turn and print the ratio of each part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each commit")
    parser.add_argument("--number", type=int, default=15, help="pairs of calls after the first")
    parser.add_argument("--only", default="", help="parts whose names contain this")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        serve(words.child)
        return
    first, again = dict[str, list[tuple[float, float]]](), dict[str, list[tuple[float, float]]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        record(folder, words.before)
        for _ in range(words.rounds):
            before, after = Checkout(words.before, folder), Checkout(HERE, folder)
            for part in (name for name in before.names if words.only in name):
                first.setdefault(part, []).append((before.seconds(part), after.seconds(part)))
                for number in range(words.number):
                    pair = [checkout.seconds(part) for checkout in ((before, after) if number % 2 else (after, before))]
                    again.setdefault(part, []).append((pair[0], pair[1]) if number % 2 else (pair[1], pair[0]))
            before.close()
            after.close()
    print("| part | before, ms | after, ms | after / before | of pairs, quartiles | first call |")
    print("|---|---:|---:|---:|---:|---:|")
    for part, pairs in again.items():
        ratios = quantiles([after / before for before, after in pairs], n=4)
        once = median(after / before for before, after in first[part])
        both = (min(before for before, _ in pairs) * 1e3, min(after for _, after in pairs) * 1e3)
        print(
            f"| {part} | {both[0]:.2f} | {both[1]:.2f} | {ratios[1]:.3f} | {ratios[0]:.2f} to {ratios[2]:.2f} | {once:.2f} |"
        )


if __name__ == "__main__":
    main()
