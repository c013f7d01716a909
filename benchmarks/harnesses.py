"""The harnesses of the package with a scripted model: each plays tasks of Terminal, and is trained, killed and resumed.

python benchmarks/harnesses.py play OUT --image IMAGE            a recorded solution is replayed; resumes where it stopped
python benchmarks/harnesses.py play OUT --image IMAGE --env rlvr/SWE-v0            the image has pytest
python benchmarks/harnesses.py train OUT --image IMAGE           half of the attempts fail on purpose
python benchmarks/harnesses.py report OUT

IMAGE has Python's venv and Node.js. Every model call gets the shell call of the task's next command, in tokens of a small
policy; in `train` these tokens replace those that the policy would sample, and everything else is `agentgym train`.
"""

import argparse
import asyncio
import json
import math
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

from agentgym.harness.description import NAMES

TERMINAL, SWE = "rlvr/Terminal-v0", "rlvr/SWE-v0"
NOTHING = "true # fails on purpose"
VOCABULARY = 4000
GAMMA = 0.95


def script(name, solutions, failing=False):
    """Return the scripted model of a harness; with `failing`, every second attempt at a task does nothing."""
    from agentgym.agents.tool_calls import FAMILIES
    from agentgym.core.actions import Call
    from agentgym.harness.description import load

    shell = load(name).shell
    tool, parameter, more, end = shell["tool"], shell["parameter"], shell.get("arguments", {}), shell.get("end")
    attempts = Counter()

    def call(command):
        return "".join(FAMILIES["hermes"].write(Call(tool, {parameter: command, **more})))

    def bash(command):  # which Terminal's solutions are written for; some harnesses take /bin/sh
        return call(f"bash -c {shlex.quote(command)}")

    def reply(prompt, turn):
        task = next((task for task in solutions if task in prompt), None)
        if task is None or f'"{tool}"' not in prompt:
            return "A title"  # a call beside the main conversation
        done, commands = prompt.count("<tool_response>"), solutions[task]
        if not done and failing:
            attempts[task] += 1
        if NOTHING in prompt or (not done and failing and attempts[task] % 2 == 0):
            commands = [NOTHING]
        if done < len(commands):
            return bash(commands[done])
        return call(end) if end else "Done."

    return reply


def terminal(number, options, split="test"):
    """Return tasks, and their commands by instruction."""
    from agentgym.registry import make

    with make(TERMINAL, backend="docker", backend_options=options, split=split) as env:
        tasks, inner = env.tasks(number), cast("Any", env.unwrapped)
        return tasks, {task.instruction: list(inner._scene(task).solution) for task in tasks}


def repository(number, options, split="test"):
    """Return tasks of SWE from all of its packages, and the commands of the oracle by issue."""
    from agentgym.registry import make

    with make(SWE, backend="docker", backend_options=options, split=split, toolset="bash") as env:
        tasks, solutions = env.tasks(number), {}
        for task in tasks:
            env.reset(seed=0, options={"task": task})
            commands = solutions[task.instruction.strip()] = []
            for action in cast("Any", env.unwrapped).oracle():
                if "SUBMIT" in action:
                    break
                commands.append(action.removeprefix("bash[").removesuffix("]"))
                env.step(action)
        return tasks, solutions


def policy(folder):
    """Make a tiny policy with random weights and Qwen2.5's template; return its folder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from agentgym.trainers.model.policy import train_tokenizer

    if not (folder / "config.json").exists():
        texts = [path.read_text() for path in sorted(Path(__file__).parents[1].glob("docs/**/*.md"))]
        tokenizer = train_tokenizer(texts, VOCABULARY, template="chatml")
        shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
        config = LlamaConfig(
            vocab_size=len(tokenizer), max_position_embeddings=1 << 18, eos_token_id=tokenizer.eos_token_id, **shape
        )
        tokenizer.save_pretrained(folder)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def tokenizer_of(folder):
    """Return the tokenizer of a policy."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def play(out, name, env, tasks, solutions, options, concurrency):
    """Play tasks with a harness and append a line for each."""
    from agentgym.engines.scripted import ScriptedEngine
    from agentgym.harness.agent import HarnessAgent
    from agentgym.harness.description import load
    from agentgym.trainers.data.segments import build

    path = out / "played.jsonl"
    played = {(row["harness"], row["task"]) for row in rows_of(path)}
    left = [task for task in tasks if (name, task.id) not in played]
    engine = ScriptedEngine(script(name, solutions), tokenizer_of(policy(out / "policy")))
    agent = HarnessAgent(
        None,
        engine,
        engine.tokenizer,
        1.0,
        4096,
        600.0,
        harness=load(f"harness:{name}"),
        options={"backend_options": options, **({"toolset": "bash"} if env == SWE else {})},
    )

    def ended(episode):
        main = [turn for turn in episode.turns if "side" not in turn.extra]
        row = {
            "harness": name,
            "task": episode.task_id,
            "success": episode.success,
            "reason": episode.reason,
            "error": (episode.error or "")[-300:],
            "turns": len(main),
            "side": len(episode.turns) - len(main),
            "rows": episode.metrics.get("rows"),
            "segments": len(build([episode])),
            "drifted": episode.metrics.get("drifted_tokens"),
            "keys": len({turn.state_key for turn in main}),
            "keyless": sum(turn.state_key is None for turn in main),
            "prompt": max((len(turn.prompt_ids) for turn in main), default=0),
            "seconds": time.time() - begun,
        }
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    begun = time.time()
    try:
        asyncio.run(agent.collect(env, tasks=left, concurrency=concurrency, ended=ended))
    finally:
        agent.close()


def child(out, name, options, words):
    """Run a command of `agentgym` whose policy says the scripted tokens; write every update's advantages."""
    from agentgym.cli import main
    from agentgym.engines.hf.engine import HFEngine
    from agentgym.engines.scripted import ScriptedEngine
    from agentgym.trainers import loop

    _, solutions = terminal(200, options, "train")
    scripted = ScriptedEngine(script(name, solutions, failing=True), tokenizer_of(out / "policy"))
    scripted._logprob = -math.log(VOCABULARY)
    rows = loop.training_rows

    async def complete(self, request):
        scripted.policy_version = self.policy_version
        return await scripted.complete(request)

    def training_rows(groups, advantages, **more):
        training = rows(groups, advantages, **more)
        line = {
            "group": [group[0].group_id for group in groups],
            "advantages": [[list(map(float, array)) for array in group] for group in advantages],
            "rows": len(training.rows),
        }
        with (out / f"{name}-updates.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        return training

    HFEngine.complete, loop.training_rows = complete, training_rows
    return main(words)


def train(out, name, options, steps):
    """Train with a harness; kill the run after its second step and resume it."""
    run = out / f"{name}-run"
    words = ["--agent", f"harness:{name}", "--env.backend", "docker", "--env.backend_options", json.dumps(options)]
    fresh = f"""train --env {TERMINAL} --model {policy(out / "policy")} --attempt-seconds 600 --steps {steps} --test-tasks 0
        --tasks-per-step 1 --group-size 4 --concurrency 2 --lr 1e-3 --turn-tokens 512 --checkpoint-every 1 --credit gigpo
        --credit.anchor state --batch-tokens 200000 --out {run}""".split()
    start = [sys.executable, __file__, "child", str(out), "--harness", name]
    start += [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    begun = time.time()
    with (out / f"{name}.log").open("a") as log:
        if not run.exists():
            going = subprocess.Popen([*start, "--", *fresh, *words], stdout=log, stderr=log)
            while going.poll() is None and not (run / "checkpoints" / "step-00000002" / "trainer.pt").exists():
                time.sleep(0.1)
            going.kill()
            if going.wait() != -signal.SIGKILL:
                raise SystemExit(f"{name} ended before it was killed: see {log.name}")
        subprocess.run([*start, "--", "train", "--resume", str(run), *words], stdout=log, stderr=log, check=True)
    with (out / "trained.jsonl").open("a") as file:
        file.write(json.dumps({"harness": name, **checked(out, name), "seconds": round(time.time() - begun)}) + "\n")


def checked(out, name):
    """Return counts of a trained run's episodes, and the largest difference to advantages computed here."""
    from agentgym.episodes.episode import read_episodes
    from agentgym.trainers.data.segments import build

    groups = {}
    for episode in read_episodes(out / f"{name}-run" / "episodes.jsonl"):
        groups.setdefault(episode.group_id, []).append(episode)
    updates = {line["group"][0]: line for line in rows_of(out / f"{name}-updates.jsonl") if line["group"]}
    metrics = rows_of(out / f"{name}-run" / "metrics.jsonl")
    gaps = [0.0]
    for group_id, group in groups.items():
        for found, computed in zip(updates[group_id]["advantages"][0], by_hand(group), strict=True):
            gaps += [abs(one - other) for one, other in zip(found, computed, strict=True)]
    episodes = [episode for group in groups.values() for episode in group]
    return {
        "steps": [row["step"] for row in metrics],
        "updates": sum(bool(row["groups_trained"]) for row in metrics),
        "faults": sum(episode.fault for episode in episodes),
        "attempts": len(episodes),
        "solved": sum(bool(episode.success) for episode in episodes),
        "drifted": sum(episode.metrics["drifted_tokens"] for episode in episodes),
        "rows": sum(episode.metrics["rows"] for episode in episodes),
        "segments": sum(len(build([episode])) for episode in episodes),
        "trained_rows": sum(line["rows"] for line in updates.values()),
        "gap": max(gaps),
    }


def by_hand(group):
    """Return GiGPO's advantages: the episode's, plus that of a turn among all turns of the group with its state's key."""
    total = [episode.reward for episode in group]
    mean = sum(total) / len(total)
    spread = math.sqrt(sum((reward - mean) ** 2 for reward in total) / (len(total) - 1))
    returns, same = [], {}
    for episode in group:
        value, own = 0.0, []
        for turn in reversed(episode.turns):
            value = turn.reward + GAMMA * value
            own.insert(0, value)
        returns.append(own)
        for turn, value in zip(episode.turns, own, strict=True):
            same.setdefault(turn.state_key or id(turn), []).append(value)
    return [
        [
            (episode.reward - mean) / (spread + 1e-6)
            + value
            - sum(same[turn.state_key or id(turn)]) / len(same[turn.state_key or id(turn)])
            for turn, value in zip(episode.turns, own, strict=True)
        ]
        for episode, own in zip(group, returns, strict=True)
    ]


def rows_of(path):
    """Return the rows of a file with JSON lines; none without the file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(out):
    """Return the tables of what was played and trained."""
    lines = [
        "| harness | solved | turns | side calls | rows | drifted tokens | longest prompt |",
        "|---|---|---|---|---|---|---|",
    ]
    played = rows_of(out / "played.jsonl")
    for name in NAMES:
        own = [row for row in played if row["harness"] == name]
        if own:
            sums = [sum(row[key] or 0 for row in own) for key in ("turns", "side", "rows", "drifted")]
            solved = f"{sum(row['success'] is True for row in own)} of {len(own)}"
            cells = [f"`{name}`", solved, *(f"{cell:,.0f}" for cell in (*sums, max(row["prompt"] for row in own)))]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| harness | updates | solved | drifted tokens | rows | advantages differ by |", "|---" * 6 + "|"]
    for row in rows_of(out / "trained.jsonl"):
        solved = f"{row['solved']} of {row['attempts']}"
        counts = f"{row['drifted']:.0f} | {row['rows']:.0f}, {row['segments']}, {row['trained_rows']}"
        lines.append(
            f"| `{row['harness']}` | {row['updates']} of {len(row['steps'])} | {solved} | {counts} | {row['gap']:.1e} |"
        )
    return "\n".join(lines)


def main():
    """Play, train, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["play", "train", "report", "child"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--image", default="")
    parser.add_argument("--env", choices=[TERMINAL, SWE], default=TERMINAL)
    parser.add_argument("--daemon", default="")
    parser.add_argument("--install-network", default="")
    parser.add_argument("--harness", nargs="+", choices=NAMES, default=[*NAMES])
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=2)
    argv = sys.argv[1:]
    end = argv.index("--") if "--" in argv else len(argv)
    arguments, words = parser.parse_args(argv[:end]), argv[end + 1 :]
    options = {"image": arguments.image, "daemon": arguments.daemon, "install_network": arguments.install_network}
    options = {key: value for key, value in options.items() if value}
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "child":
        raise SystemExit(child(arguments.out, arguments.harness[0], options, words))
    if arguments.what == "play":
        tasks, solutions = (repository if arguments.env == SWE else terminal)(arguments.tasks, options)
        for name in arguments.harness:
            play(arguments.out, name, arguments.env, tasks, solutions, options, arguments.concurrency)
    if arguments.what == "train":
        for name in arguments.harness:
            train(arguments.out, name, options, arguments.steps)
    print(report(arguments.out))


if __name__ == "__main__":
    main()
