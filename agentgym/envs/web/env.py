"""The environment: a browser over the sites, and a task or a question."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, cast

import numpy as np

from agentgym.browser import BrowserEnv, mount
from agentgym.core.actions import spell
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.envs.web.family import IMPOSSIBLE_SHARE, TaskFamily
from agentgym.envs.web.follow import Done, PageStep, next_action
from agentgym.envs.web.formats import day
from agentgym.envs.web.plan import DONE, IMPOSSIBLE, Plan
from agentgym.envs.web.sites import SITES, apps, families
from agentgym.envs.web.state import EpisodeState
from agentgym.errors import BadConfig, UnknownName, no_such

MORE_TURNS = 25
"""Additional turns per difficulty."""


class Web(BrowserEnv):
    """Use a real browser on embedded sites: a shop, a forum, a wiki and others (WebArena's kinds of site).

    Tasks are generated, of `families` (default: all): questions, changes, tasks over two sites, and impossible tasks, which
    must be answered as such. With the difficulty sites have more content and tasks more parts.

    Reward: 1 if the answer is right and the sites' databases end with exactly their initial content plus the requested
    changes; else 0. Pages are not judged.

    In families that have such tasks, 15 % are impossible: a policy that always answers so reaches that share (`ceilings`).
    """

    horizon = 50
    hardest = 50
    task_settings: ClassVar[tuple[str, ...]] = ("families",)
    settings: ClassVar[tuple[str, ...]] = (*BrowserEnv.settings, *task_settings)
    families: str | tuple[str, ...] = ()
    """Names of families or of sites, also as one comma-separated text; empty: all."""
    shared = (*BrowserEnv.shared, "trail")
    declared = Declarations(
        random_bound=0.02, expert_bound=0.95, answers=("answers",), ceilings={"impossible at once": IMPOSSIBLE_SHARE}
    )

    def check_options(self) -> None:
        super().check_options()
        self._table = families()
        names = self.families.split(",") if isinstance(self.families, str) else list(self.families)
        requested: list[str] = []
        for name in (name.strip() for name in names if name.strip()):
            if name not in self._table and name not in SITES:
                raise UnknownName(no_such("family or site of Web", name, [*SITES, *self._table]))
            requested += (
                [name]
                if name in self._table
                else [family_name for family_name in self._table if family_name.startswith(f"{name}-")]
            )
        self._families = list(dict.fromkeys(requested)) or list(self._table)

    def setup(self) -> None:
        super().setup()
        self._hosts: list[str] = []
        for host, app in apps().items():
            mount(host, app)
            self._hosts.append(host)

    def hosts(self) -> list[str]:
        return self._hosts

    # Tasks

    def limit_of(self, task: Task) -> int:
        """Return a task's turn limit, which grows with its parts."""
        return self.horizon if "horizon" in self.__dict__ else self.horizon + MORE_TURNS * task.difficulty

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a task of one of the families."""
        name = self._families[int(rng.integers(len(self._families)))]
        instruction, data = self._table[name].draw(rng, difficulty)
        return Task(instruction, data, difficulty=difficulty)

    def _family(self, task: Task) -> TaskFamily:
        data = task.data
        if not {"family", "seed", "size", "ask", "answers", "possible"} <= set(data) or data["family"] not in self._table:
            raise BadConfig(f"a task of Web with the data {data!r:.200}; expected one that `env.tasks` returns")
        return self._table[data["family"]]

    # The episode

    def start(self, task: Task) -> tuple[EpisodeState, str]:
        first = self._family(task).sites[0]
        return EpisodeState(task.data["seed"], task.data["size"]), f"http://{SITES[first][0][0]}/"

    def begin(self, task: Task) -> str:
        self.trail: tuple[PageStep, ...] = ()
        return super().begin(task)

    def opening(self, task: Task) -> str:
        """Return the instruction, the sites, the user and how to finish."""
        setting = self._sites.setting
        sites = "\n".join(f"http://{hosts[0]}/ {what}" for hosts, what in SITES.values())
        return (
            f"{task.instruction}\n\nSites:\n{sites}\n"
            f"You are logged in everywhere as {setting.me.name} (user name {setting.me.username}, password "
            f"{setting.me.password}). Today is {day(setting.now)}.\n"
            f"Finish with answer: give what was asked for, or {DONE} once the task is done. If it cannot be done, leave "
            f"everything as it was and answer {IMPOSSIBLE}. Change nothing else; the link at the foot of every page resets "
            "all sites to their state at the start."
        )

    def judge(self, answer: str | None) -> bool | None:
        """Return whether the task is done, once there is an answer."""
        if answer is None:
            return None
        state = self._sites
        with state.lock:
            return self._family(self.task).check(state, answer, self.task.data)

    def digest(self) -> object:
        """Return a hash of the sites' databases."""
        return self._sites.digest()

    @property
    def _sites(self) -> EpisodeState:
        return cast("EpisodeState", self.site)

    @staticmethod
    def end(state: object) -> None:
        assert isinstance(state, EpisodeState)
        state.close()

    def do(self, name: str, *arguments: object) -> Outcome:
        """Execute an action and record the page it was done on."""
        before = self._seen_page()
        outcome = super().do(name, *arguments)
        if outcome.valid:
            self.trail = (*self.trail, before._replace(done=(name, *arguments)))
        return outcome

    def _seen_page(self) -> PageStep:
        return PageStep(self.seen["url"], tuple((depth, text) for depth, text, _ in self.seen["lines"]))

    # Policies

    def _plan(self) -> Plan:
        return self._family(self.task).plan(self.task.data["ask"])

    def oracle(self) -> Iterator[str]:
        """Follow the family's plan; after a deviation, restore the sites first if they may have changed."""
        while True:
            yield _spelled(next_action(self._plan, self.trail, self._seen_page()))

    def expert(self) -> Iterator[str]:
        """Act like the oracle, since a plan uses only the instruction and the pages."""
        return self.oracle()

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Follow a random link."""
        links = self.elements("link")
        return spell("click", links[int(rng.integers(len(links)))].id) if links else None

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return {
            "impossible at once": lambda _: spell("answer", IMPOSSIBLE),
            "done at once": lambda _: spell("answer", DONE),
            "nothing": lambda _: spell("answer", ""),
            "the instruction": lambda seen: spell("answer", seen[0].partition("\n")[0]),
            "the last line": lambda seen: spell("answer", seen[-1].rpartition("\n")[2]),
        }


_TOOLS = {"navigate": "goto", "click": "click", "answer": "answer"}


def _spelled(done: Done) -> str:
    """Return the tool call of a browser action."""
    name, arguments = str(done[0]), done[1:]
    if name in _TOOLS:
        return spell(_TOOLS[name], *arguments)
    names = ("id", "text") if name == "fill" else ("id", "option")
    return json.dumps({"name": name, "arguments": dict(zip(names, arguments, strict=True))}, ensure_ascii=False)
