"""Three environments in OpenEnv's style, and a fault for each way in which one of them can be wrong.

`server/app.py` of a package of the tests is `from games import served; app = served(GAME, FAULT)`.
"""

import json
import random
import time
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

SHARED: dict[str, Any] = {}
"""What a server of a faulty game keeps for all its sessions."""


class Say(Action):
    text: str
    injected_state: dict[str, Any] | None = None


class Seen(Observation):
    text: str = ""
    tools: list[str] = []  # noqa: RUF012  # pydantic copies it


class Where(State):
    note: str = ""
    trajectory: list[dict[str, Any]] = []  # noqa: RUF012  # pydantic copies it


class Game(Environment[Say, Seen, State]):
    """What the three have in common: an episode is what was said, and a word decides."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    fault = ""
    turns = 6
    tools: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.id, self.steps, self.note = None, 0, ""
        self.left: list[str] = []
        self.record: list[dict[str, Any]] = []

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, injected_state: Any = None, **options: Any
    ) -> Seen:
        fault = self.fault
        SHARED["episodes"] += 1
        self.id, self.steps, self.note = episode_id, 0, ""
        if fault != "keeps what was said":
            self.texts = []
        if fault != "records all episodes":
            self.record = []
        rng = random.Random(seed)
        if fault == "zero is no seed" and not seed:
            rng = random.Random()
        if fault == "ignores the seed":
            rng = random.Random()
        if fault == "one generator for all":
            rng = SHARED["rng"]
        if fault == "first seed only":
            rng = self.__dict__.setdefault("own", rng)
        self.rng = rng
        self.begin(rng)
        text = self.opening()
        if fault == "tells the answer":
            text += f" (the answer is {self.answer})"
        if fault == "serves a task once":
            key = (seed, type(self).__name__)
            text += " (served before)" if SHARED["seen"].count(key) >= 9 else ""
            SHARED["seen"].append(key)
        if fault == "answer in the state":
            self.note = f"target {self.answer}"
        metadata: dict[str, Any] = {"target": self.answer} if fault == "answer in metadata" else {}
        if fault == "counts episodes":
            metadata["number"] = SHARED["episodes"]
        if fault == "solution in metadata":
            metadata["solved"] = self.solution()
        reward = 1.0 if fault == "pays the reset" else None
        if injected_state is not None:
            if fault == "refuses the oracle":
                raise ValueError("cannot set a state")
            for word in injected_state["said"]:
                seen = self.step(Say(text=word))
            return seen.model_copy(update={"text": seen.text})
        return Seen(
            text=text,
            reward=reward,
            metadata=metadata,
            tools=list(self.tools) + (["hidden"] if fault == "hidden tool" else []),
        )

    def step(self, action: Say, timeout_s: float | None = None, **_: Any) -> Seen:
        fault = self.fault
        self.steps += 1
        if fault == "action sets the state" and action.injected_state:
            return Seen(text="Set.", reward=1.0, done=True)
        if fault == "shared between sessions":
            SHARED["seen"].append(action.text)
        self.texts.append(action.text)
        text, solved = self.answered(action.text)
        reward = 1.0 if solved else 0.0
        if fault == "chance in answers":
            text += f" {random.random()}"
        if fault == "tells the time":
            text += f" {int(time.time())}"
        if fault == "shared between sessions":
            text += f" ({len(SHARED['seen'])} so far)"
        if fault == "half for the solution" and solved:
            reward = 0.5
        if fault == "pays anything":
            reward = 1.0
        if fault == "pays the empty answer" and not action.text.strip():
            reward = 1.0
        if fault == "believes claims" and "success" in action.text:
            reward = 1.0
        if fault == "believes verdicts" and '"reward": 1.0' in action.text:
            reward = 1.0
        if fault == "pays quotes" and action.text.startswith("echo "):
            reward = 1.0
        if fault == "noise in rewards":
            reward = round(max(0.0, reward - random.random() / 100), 6)
        if fault == "reward by the clock":
            reward = reward * (time.time_ns() // 1000 % 7) / 7
        SHARED["judged"] += 1
        if fault == "reward by number" and SHARED["judged"] % 3 == 0:
            reward = 0.0 if reward else 0.25
        done = solved or self.steps >= self.turns
        if fault != "records no second step" or self.steps != 2:
            paid = 1.0 if fault == "records other rewards" else reward
            self.record.append({"action": {"text": action.text}, "reward": paid, "done": done})
        return Seen(text=text, reward=reward, done=done)

    @property
    def state(self) -> State:
        if self.fault == "keeps no record":
            return State(episode_id=self.id, step_count=self.steps)
        return Where(episode_id=self.id, step_count=self.steps, note=self.note, trajectory=self.record)

    def list_splits(self) -> list[str]:
        return ["train"] if self.fault == "a split is missing" else ["train", "test"]

    def num_tasks(self, split: str) -> int:
        return 4 if self.fault == "wrong count" and split == "test" else 3

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        if self.fault == "last task unreadable" and index == 2:
            raise IndexError(index)
        return {"id": f"{split}-{index}", "index": index}

    def solution(self) -> dict[str, Any]:
        return {"said": [self.answer, "done"][: 1 + self.two]}

    two = False
    answer = ""

    def begin(self, rng: random.Random) -> None:
        raise NotImplementedError

    def opening(self) -> str:
        raise NotImplementedError

    def answered(self, word: str) -> tuple[str, bool]:
        raise NotImplementedError


class Number(Game):
    """A hidden number of six figures: higher or lower."""

    def begin(self, rng: random.Random) -> None:
        self.answer = str(rng.randrange(100_000, 1_000_000))

    def opening(self) -> str:
        return "Guess a number of six figures."

    def answered(self, word: str) -> tuple[str, bool]:
        if not word.strip().isdecimal():
            return "A number, please.", False
        return ("Right.", True) if word == self.answer else ("Higher." if int(word) < int(self.answer) else "Lower.", False)


class Words(Game):
    """Choose the word that a riddle means; the choices are listed."""

    CHOICES = ("candle", "window", "mirror", "ladder")
    tools = ("guess",)

    def begin(self, rng: random.Random) -> None:
        self.order = rng.sample(self.CHOICES, 4)
        self.answer = rng.choice(self.CHOICES) + f"-{rng.randrange(1000, 9999)}"

    def opening(self) -> str:
        return f"Say one of {', '.join(self.order)} with its code."

    def answered(self, word: str) -> tuple[str, bool]:
        return ("Right.", True) if word == self.answer else (f"Not {word[:20]!r}. Tried: {len(self.texts)}.", False)


class Locks(Game):
    """Open a lock by a code, then say that it is done; nothing is drawn by chance but the code."""

    two = True

    def begin(self, rng: random.Random) -> None:
        self.answer = f"code {rng.randrange(10_000, 99_999)}"

    def opening(self) -> str:
        return "A lock with five figures."

    def answered(self, word: str) -> tuple[str, bool]:
        opened = self.answer in self.texts
        return ("Done.", True) if opened and word == "done" else ("Open." if opened else "Locked.", False)


GAMES = {"number": Number, "words": Words, "locks": Locks}


def served(game: str, fault: str, folder: str = ".") -> Any:
    """Return OpenEnv's application over a game of the package in a folder, with a fault; empty for none."""
    SHARED.update(episodes=0, judged=0, seen=[], rng=random.Random(5))
    kind = type("Served", (GAMES[game],), {"fault": fault})
    app = create_fastapi_app(kind, Say, Seen, max_concurrent_envs=8, env_name=game, state_cls=Where)
    if fault == "serves the package":
        from fastapi.staticfiles import StaticFiles

        app.mount("/static", StaticFiles(directory=folder))
    return app


def package(game: str, fault: str) -> dict[str, str]:
    """Return the files of the package of a game by name."""
    kind = GAMES[game]()
    kind.begin(random.Random(7))
    solution = {"reset": {"seed": 7}, "injected_state": kind.solution()}
    claims = ["", "success: you won", '{"reward": 1.0}', "echo right"]
    canaries = [{"name": word or "empty", "reset": {}, "actions": [{"text": word}] * 2} for word in claims]
    tools = list(kind.tools)
    tools += ["imagined"] if fault == "declares a tool too many" else []
    tools = ["gues" if tool == "guess" else tool for tool in tools] if fault == "misspells a tool" else tools
    capabilities: dict[str, Any] = {
        "verifier": {"kind": "reward_channel"},
        "set_state": True,
        "task_api": True,
        "declared_tools": tools,
        "declared_task_count": {"train": 3, "test": 3},
        "canaries": "canaries.json",
        "oracle": {"form": "injected_state", "location": "oracle.json"},
    }
    if fault == "no oracle":
        del capabilities["oracle"]
    manifest = {
        "name": game,
        "app": "server.app:app",
        "validation": {
            "reward": {"range": [0.0, 1.0], "floor_margin": 0.5},
            "resources": {"cpu": 1.0, "memory_mb": 256, "disk_mb": 64, "episode_timeout_s": 60.0},
            "capabilities": capabilities,
            "types": {"tags": ["text"]},
            "execution": {"kind": "openenv_ws", "probe_path": "plan.json"},
        },
    }
    plan = {
        "plan_schema_version": "1",
        "reset": {"episode_id": "probe", "seed": 7, "options": {}},
        "actions": [{"text": "500000"}, {"text": "look around"}, {"text": "done"}],
    }
    return {
        "openenv.yaml": json.dumps(manifest),
        "plan.json": json.dumps(plan),
        "oracle.json": json.dumps(solution),
        "canaries.json": json.dumps(canaries),
        "Dockerfile": "FROM scratch\n",
        "server/app.py": f"from games import served\n\napp = served({game!r}, {fault!r})\n",
    }
