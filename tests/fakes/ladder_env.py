"""An environment that does all an environment can, for the tests of the base class."""

from agentgym import Fault, Task, TextEnv


class Ladder(TextEnv):
    """Climb to rung 4; `fall`, `hang` and `dice` do what they say."""

    settings = ("top",)
    top: int = 4
    presets = {"low": {"top": 2, "horizon": 7}}  # noqa: RUF012

    def begin(self, task):
        self.rung = task.data.get("rung", 0)
        return f"rung {self.rung}"

    def act(self, action):
        if action == "hang":
            raise Fault("the rope holds nothing", reason="timeout")
        if action == "fall":
            return self.lose("You fell.")
        if action == "dice":
            return f"a {self.np_random.integers(1, 7)}"
        if action not in ("up", "down"):
            return self.invalid("Nothing happens.", error="Say up or down.")
        self.rung += 1 if action == "up" else -1
        return self.win("Top!") if self.rung == self.top else self.reward(f"rung {self.rung}", brave=1.0)

    def state(self):
        return self.rung

    def measures(self):
        return {"height": self.rung / self.top}

    def generate(self, rng, difficulty):
        return Task("climb", {"id": int(rng.integers(10**9))})
