"""A training run made by hand, with everything a page has to cope with."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym import Episode, Turn

ATTACKS = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>alert(1)</script>",
    "'\"><svg onload=alert(1)>&lt;script&gt;",
    "javascript:alert(1) \u2028 \u2029 ]]> {{7*7}} ${alert(1)} %%data%%",
    "\x00\x1b[31m\u202egnp.exe \ud800",
)
TYPES = ("pick and place", "look at in light", "clean", "heat", "cool")
ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a countertop 1, "
    "a drawer 1, a fridge 1, a garbagecan 1, a microwave 1, and a sinkbasin 1.\n\n"
)


def attack_episode() -> Episode:
    """Return an episode in which every text is hostile."""
    a, b, c, d, e = ATTACKS
    turn = Turn(a, action=b, text=c, error=d, valid=False, reward=0.0, rewards={a: 0.25}, role=b)
    turn.messages = [{"role": a, "content": e}]
    episode = Episode(a, a, "7/" + b, seed=1, turns=[turn], instruction=a, success=False, reason=c, error=d)
    episode.final_observation, episode.labels, episode.metrics, episode.final_rewards = (
        e,
        {"type": d},
        {a: 1.0},
        {a: 1.0, b: 0.0},
    )
    return episode


def episode(number: int, group: str, result: bool | None, rng: np.random.Generator) -> Episode:
    """Return an episode like those of a household."""
    kind = TYPES[number % len(TYPES)]
    goal = f"Your task is to: {kind} some mug {number % 7 + 1} in the cabinet."
    turns = [Turn(ROOM + goal, action="go to countertop 1")]
    for i in range(int(rng.integers(2, 14))):
        valid = bool(rng.random() > 0.15)
        seen = f"You arrive at cabinet {i}. The cabinet {i} is closed." if valid else "Nothing happens."
        turns.append(Turn(seen, action=f"open cabinet {i}" if i % 2 else f"go to fridge {i}", valid=valid))
        turns[-1].error = None if valid else "There is no such thing here; try one of the admissible commands."
    for i, turn in enumerate(turns):
        turn.text = f"<think>The mug may be in cabinet {i}.</think>\n<act>{turn.action}</act>"
        turn.prompt_ids, turn.output_ids = list(range(50 + 30 * i)), list(range(12))
        turn.logprobs = [-0.3] * 12
        turn.extra = {"advantage": float(rng.normal())}
    made = Episode("rlvr/Household-v0", f"valid/0/{number}", group, seed=2**62 + number, turns=turns, instruction=goal)
    made.labels, made.success, made.split = {"type": kind}, result, "valid"
    made.reason = {True: "success", False: "horizon", None: "engine"}[result]
    made.horizon, made.final_observation = 30, "You put the mug in the cabinet." if result else "Nothing happens."
    made.error = "Traceback (most recent call last):\n  ConnectionError: the engine went away" if result is None else None
    if result:
        made.reward = turns[-1].reward = 1.0
        turns[-1].rewards = {"success": 1.0}
    return made


def metrics(steps: int) -> list[dict[str, float | str | None]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, float | str | None]] = [
        {"step": i, "phase": "sft", "loss": 3.0 * math.exp(-i / 8), "success_train": None} for i in range(20)
    ]
    rows[9]["success_valid"] = rows[19]["success_valid"] = 0.3
    for step in range(steps):
        level = 0.3 + 0.55 * (1 - math.exp(-step / 30))
        row: dict[str, float | str | None] = {
            "step": step,
            "phase": "rl",
            "success_train": float(np.clip(level + rng.normal(0, 0.04), 0, 1)),
            "reward": level,
            "turns": 22 - 10 * level + rng.normal(),
            "tokens_per_second": 5200 + 300 * rng.normal(),
            "share_rollout": 0.5,
            "share_train": 0.35,
            "share_env": 0.15,
            "mismatch_kl": 1e-6 * rng.random(),
            "mismatch_mean": 1e-4 * rng.random(),
            "mismatch_q999": 1e-3 * rng.random(),
            "entropy": 0.9 - 0.6 * level,
            "groups_dropped": float(rng.integers(0, 6)),
            "loss": 0.02 * rng.normal(),
            "grad_norm": 0.3 + 0.1 * rng.random(),
            "clip_fraction": 0.02 * rng.random(),
            "anchor_size": 3.1,
            "anchor_singletons": 0.4,
            "prefix_hits": 0.5,
            "seconds": 2.0,
        }
        if step % 10 == 0:
            row["success_valid"] = level - 0.03
        rows.append(row)
    return rows


def write_run(folder: Path, *, steps: int = 60, each: int = 4) -> Path:
    """Write a training run with an episode under attack in it."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    (folder / "config.toml").write_text('env = "rlvr/Household-v0"\ncredit = "gigpo"\nseed = 3\n')
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics(steps)))
    results = {"success_before": 0.01, "success_sft": 0.312, "success_after": 0.845}
    summary = {**results, "episodes": 7680, "train_seconds": 214.0, "credit": "gigpo", "seed": 3}
    (folder / "summary.json").write_text(json.dumps(summary))
    episodes: list[Episode] = []
    for step in range(0, steps, 10):
        solved = 0.3 + 0.5 * step / steps
        for part in (f"{step}/train/0/", f"eval/{step}/valid/0/"):
            for i in range(each):
                result = None if rng.random() < 0.03 else bool(rng.random() < solved)
                task = i if part.startswith("eval") else i // 2  # training has groups of two attempts
                episodes.append(episode(step * each + task, part + str(task), result, rng))
                episodes[-1].attempt = 0 if part.startswith("eval") else i % 2
    episodes.insert(len(episodes) // 2, attack_episode())
    (folder / "episodes.jsonl").write_text("".join(e.to_json() + "\n" for e in episodes), encoding="utf-8", newline="\n")
    return folder


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "demo <b>run & %%data%%")


FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    own = os.environ.get("AGENTGYM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=own, args=FLAGS)
        except api.Error as error:
            pytest.skip(
                "no browser starts ($AGENTGYM_CHROMIUM, chromium, google-chrome, Playwright's own): apt install chromium, "
                f"or playwright install chromium ({str(error).splitlines()[0]})"
            )
        yield found
        found.close()


class Watched:
    """A page in a browser, and everything it did that it must not do."""

    def __init__(self, browser: Any, path: Path, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", self._request)
        self.page.goto(path.as_uri())

    def _request(self, request: Any) -> None:
        if not request.url.startswith("file:") or not request.is_navigation_request():
            self.trouble.append(f"request: {request.url}")

    def rows(self) -> Any:
        return self.page.locator("#episodes .row")
