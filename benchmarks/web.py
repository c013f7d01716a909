"""Measure the browser environments: against BrowserGym on the same MiniWoB tasks, and what stays of many episodes.

    python benchmarks/web.py --peer-python ENV/bin/python     reset, step and memory, both sides in one run, in turn
    python benchmarks/web.py --soak 600                       eight episodes at once: growth of memory, processes, files

ENV holds browsergym-miniwob 0.14.3; without `--peer-python` one is made in a temporary folder. Both sides use one Chromium.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from pathlib import Path

TASKS = ("click-test", "click-button", "enter-text", "click-checkboxes", "click-tab-2", "login-user")
STEPS = 5

PEER = """
import json, os, sys, time
import gymnasium, browsergym.miniwob, browsergym.core.env
import playwright.sync_api as api
launch = api.BrowserType.launch
api.BrowserType.launch = lambda self, **k: launch(self, **{**k, "executable_path": os.environ["CHROMIUM"],
    "args": [*(k.get("args") or []), "--no-sandbox"]})
for line in sys.stdin:
    task, seed, steps = json.loads(line)
    env = gymnasium.make(f"browsergym/miniwob.{task}", headless=True)
    t = time.perf_counter()
    obs, info = env.reset(seed=seed)
    reset = time.perf_counter() - t
    times = []
    for _ in range(steps):
        t = time.perf_counter()
        env.step("noop(0)")
        times.append(time.perf_counter() - t)
    print(json.dumps({"reset": reset, "steps": times, "goal": obs["goal"], "kind": "result"}), flush=True)
    if sys.stdin.readline():  # measured while it stands
        env.close()
        print(json.dumps({"kind": "closed"}), flush=True)
"""

OURS = """
import json, sys, time
from agentgym.envs.miniwob import MiniWoB
envs = []
for line in sys.stdin:
    request = json.loads(line)
    if request == "close":
        for env in envs: env.close()
        envs = []
        time.sleep(1)
        print(json.dumps({"kind": "closed"}), flush=True)
        continue
    task, seed, steps, fresh = request
    if fresh or not envs: envs.append(MiniWoB(preset="all", horizon=1000))
    t = time.perf_counter()
    envs[-1].reset(seed=seed, options={"task": f"{task}/{seed}"})
    reset = time.perf_counter() - t
    times = []
    for _ in range(steps):
        t = time.perf_counter()
        envs[-1].step("noop[]")
        times.append(time.perf_counter() - t)
    print(json.dumps({"reset": reset, "steps": times, "goal": envs[-1].goal, "kind": "result"}), flush=True)
"""


def tree(pid):
    """Return a process and all below it."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        queue += parents.get(one, [])
    return found


def memory(pids):
    """Return MiB of memory, what is shared divided among those that share it (PSS)."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return total / 1024


def files(pids):
    """Return how many files are open."""
    count = 0
    for pid in pids:
        try:
            count += len(list(Path(f"/proc/{pid}/fd").iterdir()))
        except OSError:
            continue
    return count


class Side:
    """A process that resets and steps when asked."""

    def __init__(self, python: str, code: str, variables: dict[str, str]):
        self.process = subprocess.Popen(
            [python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
        )

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("a side ended; its message is above")
            if line.startswith("{"):
                return json.loads(line)

    def memory(self):
        return memory(tree(self.process.pid))


def peer_environment():
    folder = tempfile.mkdtemp(prefix="browsergym-")
    venv.create(folder, with_pip=True)
    subprocess.run([f"{folder}/bin/pip", "install", "-q", "browsergym-miniwob==0.14.3"], check=True)
    return f"{folder}/bin/python"


def compare(peer_python, rounds):
    from agentgym.browser.chromium import chromium
    from agentgym.envs.miniwob.pages import folder

    chromium_path = chromium()
    variables = {"MINIWOB_URL": f"file://{folder()}/miniwob/", "CHROMIUM": chromium_path}
    theirs = Side(peer_python, PEER, variables)
    ours = Side(sys.executable, OURS, {})
    ours.ask(["click-test", 0, 1, False])  # both sides once before the clock counts: imports, page cache
    theirs.ask(["click-test", 0, 1])
    theirs.ask("close")
    resets, steps, sizes = {"ours": [], "theirs": []}, {"ours": [], "theirs": []}, []
    for number in range(rounds):
        for task in TASKS:
            their = theirs.ask([task, number, STEPS])
            sizes.append(theirs.memory())
            theirs.ask("close")
            our = ours.ask([task, number, STEPS, False])
            for name, side in (("ours", our), ("theirs", their)):
                resets[name].append(side["reset"])
                steps[name] += side["steps"]
            time.sleep(0.5)  # a model would be thinking
    ours.ask("close")
    before = ours.memory()
    sessions = []
    for count in range(1, 9):
        ours.ask([TASKS[count % len(TASKS)], count, 1, True])
        sessions.append(ours.memory())
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of {len(resets['ours'])} resets and "
        f"{len(steps['ours'])} steps"
    )
    for what, table in (("reset", resets), ("step", steps)):
        our, their = (statistics.median(table[side]) for side in ("ours", "theirs"))
        print(f"{what}: ours {1000 * our:.0f} ms, BrowserGym {1000 * their:.0f} ms, ratio {their / our:.1f}")
    their = statistics.median(sizes)
    print(
        f"memory (PSS): ours {sessions[0]:.0f} MiB with one environment, {sessions[-1]:.0f} with eight = "
        f"{sessions[-1] / 8:.0f} each ({(sessions[-1] - sessions[0]) / 7:.0f} for one more; {before:.0f} with none), "
        f"BrowserGym {their:.0f} each: {8 * their / sessions[-1]:.1f} times ours at eight"
    )


def soak(seconds, count):
    """Play oracle episodes in so many threads and say how much grew between the first quarter and the last."""
    from agentgym.envs.miniwob import MiniWoB

    end, episodes, faults = time.monotonic() + seconds, [0] * count, [0] * count

    def play(index):
        env, seed = MiniWoB(), index
        while time.monotonic() < end:
            env.reset(seed=seed, options={"task": env.numbered(seed % 2000)})
            over = False
            for action in env.oracle():
                *_, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    over = True
                    faults[index] += info["success"] is not True
                    break
            episodes[index] += over
            seed += count
        env.close()

    threads = [threading.Thread(target=play, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    samples = []
    while time.monotonic() < end:
        time.sleep(5)
        pids = tree(os.getpid())
        samples.append((memory(pids), len(pids), files(pids), memory([os.getpid()])))
    for thread in threads:
        thread.join()
    quarter = max(len(samples) // 4, 1)
    print(
        f"{sum(episodes)} episodes in {seconds:.0f} s, {count} at once, {sum(faults)} without success, "
        f"load {os.getloadavg()[0]:.1f}; second quarter against last"
    )
    for name, column in (("memory of all processes, MiB", 0), ("processes", 1), ("open files", 2), ("this process, MiB", 3)):
        values = [sample[column] for sample in samples]
        early, late = statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])
        print(f"{name}: {early:.0f} -> {late:.0f} (least {min(values):.0f}, most {max(values):.0f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", help="a Python with browsergym-miniwob 0.14.3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, default=0, help="seconds")
    parser.add_argument("--episodes", type=int, default=8, help="at once, with --soak")
    arguments = parser.parse_args()
    if arguments.soak:
        soak(arguments.soak, arguments.episodes)
    else:
        compare(arguments.peer_python or peer_environment(), arguments.rounds)


if __name__ == "__main__":
    main()
