"""MiniWoB++ in agentgym's browser, with its observations and tools."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import ClassVar, cast

import numpy as np

from agentgym.browser import BrowserEnv, mount
from agentgym.browser.session import Session
from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.envs.miniwob.names import LIMITS, NAMES, THRESHOLDS
from agentgym.envs.miniwob.pages import HOST, folder, site, url
from agentgym.envs.miniwob.solvers import DEFAULT, SOLVERS, Page
from agentgym.errors import BadConfig, Fault, Reason, UnknownName, no_such

SEEDS = 1_000_000
"""Number of possible seeds per task, as in BrowserGym."""

START = """(() => {
  const style = document.createElement("style");
  style.textContent = "#reward-display, #click-canvas, #sync-task-cover { display: none !important }" +
    "#query, #query-pretty, #reward-reason { visibility: hidden }";
  document.head.appendChild(style);
  document.body.removeEventListener("click", core.canvasDrawClick);
  core.EPISODE_MAX_TIME = 1e9;
  core.setDataMode("train");
  Math.seedrandom(%d);
  core.startEpisodeReal();
  core.clearTimer();
  core.agentgym = () => {
    if (!WOB_TASK_READY) return null;
    const told = core.getUtterance();
    return String(told.utterance ?? told);
  };
  return [core.agentgym()];
})()"""
"""Script that starts the episode; as in BrowserGym, it takes the goal out of the page and hides the reward display."""
RESULT = "typeof core === 'object' && core.agentgym && WOB_EPISODE_ID >= 0 ? [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL] : null"


class MiniWoB(BrowserEnv):
    """Do a small task on a web page: the tasks of MiniWoB++ (Liu et al. 2018, arXiv 1802.08802).

    The pages come from the package `miniwob` and are seeded with `Math.seedrandom`. The reward is 1 if the page's raw
    reward, without its time bonus, is 1 (or reaches a threshold, for tasks with graded rewards), else 0. Leaving the
    page is a failure.

    `names` selects the tasks: by default those that can be solved from text, which have an oracle; `preset="all"`
    selects all.
    """

    horizon = 10
    task_settings: ClassVar[tuple[str, ...]] = ("names",)
    settings: ClassVar[tuple[str, ...]] = (*BrowserEnv.settings, *task_settings)
    names: tuple[str, ...] = DEFAULT
    """Names of the tasks to draw from, as in the package."""
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"all": {"names": NAMES}}
    viewport = (500, 320)
    ready = f"ready.{HOST}"
    page_options: ClassVar[dict[str, object]] = {"every": True}
    declared = Declarations(random_bound=0.25, expert_bound=0.9)

    def requires(self) -> None:
        super().requires()
        folder()

    def setup(self) -> None:
        """Mount the pages in the browser and check `names`.

        Raises:
            UnknownName: the package has no such task.
            BadConfig: `names` is empty.
        """
        super().setup()
        self.names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        for name in self.names:
            if name not in NAMES:
                raise UnknownName(no_such("task of MiniWoB", name, NAMES))
        if not self.names:
            raise BadConfig("names of MiniWoB is empty; expected names of tasks")
        mount(HOST, site)
        self._goals: dict[str, str] = {}  # of the task open in the browser
        for name in ("goto", "back", "tab", "answer"):  # there is only one page, and no question
            self.tools.pop(name)

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw one of the tasks, with a random seed."""
        return self._task(self.names[int(rng.integers(len(self.names)))], int(rng.integers(SEEDS)))

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task with this number; consecutive numbers cycle through `names`, with seeds from the split."""
        split = self._split_for(number, split)
        name = self.names[number % len(self.names)]
        rng = generator("MiniWoB", split, name, number // len(self.names))
        while True:
            task = self._task(name, int(rng.integers(SEEDS)))
            if task.split == split:
                return task

    def _task(self, name: str, seed: int) -> Task:
        task = Task(data={"type": name, "seed": seed}, id=f"{name}/{seed}")
        return Task(data=task.data, id=task.id, split=self.split_of(task))

    def split_key(self, task: Task) -> object:
        return task.data["type"], task.data["seed"]

    def find(self, task_id: str) -> Task:
        """Return the task with this id, `NAME/SEED`.

        Raises:
            BadConfig: the id is malformed.
        """
        name, _, seed = task_id.rpartition("/")
        if name not in NAMES or not seed.isdecimal() or int(seed) >= SEEDS:
            raise BadConfig(f"task id {task_id!r} of MiniWoB: expected NAME/SEED, for example click-test/17")
        return self._task(name, int(seed))

    def limit_of(self, task: Task) -> int:
        return self.horizon if "horizon" in self.__dict__ else LIMITS.get(task.data["type"], self.horizon)

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return how the turn limits differ from BrowserGym's, which are 10 for every task; "" if they do not."""
        options = {"names": cls.names, **cls.presets.get(str(options.get("preset")), {}), **options}
        names = cast("str | tuple[str, ...]", options["names"])
        longer = {*((names,) if isinstance(names, str) else names)} & LIMITS.keys()
        if options.get("horizon", cls.horizon) == cls.horizon and not ("horizon" not in options and longer):
            return ""
        return f"limits tasks to other numbers of steps than BrowserGym's {cls.horizon} (horizon={cls.horizon})"

    # The page

    def start(self, task: Task) -> tuple[object, str]:
        return task.data, url(task.data["type"])

    async def prepare(self, session: Session) -> None:
        """Start the page's episode and read its goal.

        Raises:
            Fault: the page does not start or does not become ready.
        """
        tab = session.tab
        begun = await tab.main(START % self.task.data["seed"])
        if not begun:
            raise Fault(f"the page of {self.task.id} does not begin", reason=Reason.CRASH)
        goal = begun[0]
        for _ in range(200):
            if goal is not None:
                break
            await session.rest()
            goal = await tab.main("core.agentgym()")
        else:
            raise Fault(f"the page of {self.task.id} does not become ready", reason=Reason.CRASH)
        self._goals = {self.task.id: goal}

    def opening(self, task: Task) -> str:
        self.goal: str = self._goals[task.id]
        return f"Goal: {self.goal}"

    def judge(self, answer: str | None) -> bool | None:
        result = self.peek(RESULT)
        if result is None:
            return False  # the agent left the page
        done, raw = cast("tuple[bool, float]", result)
        return raw >= THRESHOLDS.get(self.task.data["type"], 1) if done else None

    def _key(self) -> str:
        """Return a hash of the actions so far, since pages store state in variables that cannot be read."""
        return hashlib.blake2b(repr((self.task.id, self.log)).encode("utf-8", "replace"), digest_size=8).hexdigest()

    # Additional tools for these pages

    @tool
    def dblclick(self, id: int) -> Outcome:
        """Double-click the element with this number."""
        return self.do("click", id, 2)

    @tool
    def hover(self, id: int) -> Outcome:
        """Move the mouse over the element with this number."""
        return self.do("hover", id)

    @tool
    def keyboard_type(self, text: str) -> Outcome:
        """Type text, key by key, into the focused element; at most 300 characters."""
        if len(text) > 300:
            return self.refused(f"the text has {len(text)} characters; keyboard_type takes at most 300, fill takes more")
        return self.do("type", text)

    @tool
    def drag_and_drop(self, from_id: int, to_id: int) -> Outcome:
        """Drag an element and drop it on another."""
        return self.do("drag", from_id, to_id)

    @tool
    def mouse_click(self, x: float, y: float) -> Outcome:
        """Click a point of the window, in pixels from its top left corner."""
        return self.do("click_point", *self._point(x, y))

    @tool
    def mouse_drag_and_drop(self, from_x: float, from_y: float, to_x: float, to_y: float) -> Outcome:
        """Drag from one point of the window to another."""
        return self.do("drag_points", *self._point(from_x, from_y), *self._point(to_x, to_y))

    @tool
    def noop(self) -> Outcome:
        """Do nothing for a second."""
        return self.do("wait")

    def _point(self, x: float, y: float) -> tuple[float, float]:
        """Return the nearest point inside the window, in pixels; NaN becomes 0."""
        return tuple(min(max(v, 0.0), most - 1) if v == v else 0.0 for v, most in zip((x, y), self.viewport, strict=True))  # type: ignore[return-value]

    # Policies

    def oracle(self) -> Iterator[str]:
        solver = SOLVERS.get(self.task.data["type"])
        if solver is None:
            raise NotImplementedError(f"{self.task.data['type']} has no oracle")
        while True:
            try:
                yield solver(Page(self.goal, self.seen))
            except (LookupError, StopIteration, ValueError):  # its target is hidden by something that opened
                yield spell("press", "Escape")

    def expert(self) -> Iterator[str]:
        return self.oracle()  # the solver reads only goal and page
