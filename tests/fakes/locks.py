"""Combination locks: what chance opens once in 1,296 times, and one that shows a part of its combination."""

import agentgym
from agentgym import Task

LETTERS = "abcdef"
CODE = "bfac"
FAILED = "\n\nAn earlier attempt failed (failure). It ended with:\nIt jams."


def revealed(code, letters):
    return " ".join(code[:letters] + "?" * (len(code) - letters)) if letters else ""


class Lock(agentgym.TextEnv):
    """Dial four letters; a wrong one jams the lock. The combination is always the same, and nobody says it."""

    horizon = 4

    def numbered(self, number, split=None, difficulty=None):
        return Task("open the door", {"code": CODE}, "door", split or self.split)

    def size(self, split=None):
        return 1

    def find(self, task_id):
        return self.numbered(0)

    def begin(self, task):
        self.code, self.dialled = task.data["code"], ""
        return "A door: dial 1."

    def act(self, action):
        if action.strip() not in list(LETTERS):
            return self.invalid("Dial a, b, c, d, e or f.")
        self.dialled += action.strip()
        if not self.code.startswith(self.dialled):
            return self.lose("It jams.")
        return self.win("It opens.") if self.dialled == self.code else f"dial {len(self.dialled) + 1}."

    def state(self):
        return self.code, self.dialled

    def oracle(self):
        while True:
            yield self.code[len(self.dialled)]

    def hint(self, level):
        return revealed(self.code, int(level * len(self.code)))


class Shown(Lock):
    """Locks whose combination is drawn anew each time, and told in part, in the words of a hint and of guidance after
    a failure: to learn to follow them."""

    def size(self, split=None):
        return None

    def numbered(self, number, split=None, difficulty=None):
        return agentgym.TextEnv.numbered(self, number, split, difficulty)

    def find(self, task_id):
        return agentgym.TextEnv.find(self, task_id)

    @staticmethod
    def generate(rng, difficulty):
        code = "".join(LETTERS[int(i)] for i in rng.integers(len(LETTERS), size=4))
        data = {"code": code, "shown": int(rng.integers(5)), "again": bool(rng.integers(2)), "n": int(rng.integers(10**9))}
        return Task("open the door", data)

    def begin(self, task):
        part = revealed(task.data["code"], task.data["shown"])
        after = FAILED if task.data["again"] else ""
        return super().begin(task) + (f"\n\nHint: {part}{after}" if part else "")

    def expert(self):
        yield from self.oracle()


agentgym.register("small/Lock-v0", Lock)
agentgym.register("small/Shown-v0", Shown)
