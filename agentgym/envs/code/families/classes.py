"""Small classes: a store, accounts, a cache, a clock; the task defines their methods."""

from collections.abc import Callable, Mapping

from agentgym.envs.code.families.family import Draw, Frame, ProgramFamily, ProgramSpec, Rng, Rule, Slot, typed
from agentgym.envs.code.families.slots import choice, integer, one

NAMES = ["Ada", "Ben", "Cleo", "Dan"]
ARGUMENTS: dict[str, Callable[[Rng], object]] = {
    "value": lambda rng: int(rng.integers(-5, 10)),
    "i": lambda rng: int(rng.integers(0, 5)),
    "n": lambda rng: int(rng.integers(0, 4)),
    "name": lambda rng: one(NAMES, rng),
    "other": lambda rng: one(NAMES, rng),
    "amount": lambda rng: int(rng.integers(1, 30)),
    "key": lambda rng: one("abcde", rng),
    "minutes": lambda rng: int(rng.integers(0, 1500)),
    "hour": lambda rng: int(rng.integers(0, 24)),
}
"""Parameter name -> function that draws an argument."""


def _calls(start: Callable[[Rng], list[object]], often: str) -> Draw:
    """Return a function that draws an input for a class: constructor arguments, which `start` draws, and method calls.

    It calls the methods of the specification and those in `often` (signatures separated by "; ").
    """
    always = tuple(often.split("; "))

    def draw(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
        heads = [*(step.says.split("`")[1] for step in plan.steps), *always]
        calls: list[list[object]] = []
        for _number in range(int(rng.integers(3, 16 + 4 * difficulty))):
            name, _, names = one(heads, rng).rstrip(")").partition("(")
            calls.append([name, [ARGUMENTS[each](rng) for each in names.split(", ") if each]])
        return [start(rng), calls]

    return draw


STORE = "def __init__(self, limit):\n    self.limit = limit\n    self.values = []\n"
FULL = (
    STORE + "def add(self, value):\n    if len(self.values) == self.limit:\n        return False\n"
    "    self.values.append(value)\n    return True"
)
PUSH = (
    STORE + "def add(self, value):\n    self.values.append(value)\n"
    "    return self.values.pop(0) if len(self.values) > self.limit else None"
)
ACCOUNTS = (
    "def __init__(self, limit):\n    self.limit = limit\n    self.table = {}\ndef put(self, name, amount):\n"
    "    self.table[name] = self.table.get(name, 0) + amount\n    return self.table[name]"
)
CACHE = (
    "def __init__(self, limit):\n    self.limit = limit\n    self.table = {}\ndef put(self, key, value):\n"
    "    self.table.pop(key, None)\n    self.table[key] = value\n    if len(self.table) > self.limit:\n"
    "        self.table.pop(next(iter(self.table)))"
)
CLOCK = (
    "def __init__(self, hour, minute):\n    self.now = 60 * hour + minute\ndef go(self, minutes):\n"
    "    self.now = (self.now + minutes) % 1440\n    return self.now // 60, self.now % 60"
)


def _limit(low: int, high: int) -> Callable[[Rng], list[object]]:
    return lambda rng: [int(rng.integers(low, high + 1))]


FRAMES = (
    Frame(
        "An object holds at most `limit` integers and starts empty. `add(value)` adds an integer and returns True; "
        "if the object is already full, it changes nothing and returns False.",
        "limit",
        _calls(_limit(1, 5), "add(value); add(value)"),
        FULL,
        (FULL.replace("== self.limit", "> self.limit"), FULL.replace("return False", "self.values.pop(0)")),
        gives="store",
        asks="Its other methods:",
        kind="class",
    ),
    Frame(
        "An object holds at most `limit` integers and starts empty. `add(value)` adds an integer and returns None; "
        "if there are then more than `limit`, it removes the oldest one and returns that instead.",
        "limit",
        _calls(_limit(1, 5), "add(value); add(value)"),
        PUSH,
        (PUSH.replace("> self.limit", ">= self.limit"), PUSH.replace("pop(0)", "pop()")),
        gives="store",
        asks="Its other methods:",
        kind="class",
    ),
    Frame(
        "An object keeps accounts by name. `put(name, amount)` adds an amount to an account, opening it with a "
        "balance of 0 if it does not exist, and returns the new balance. `limit` is how far below 0 a balance may go.",
        "limit",
        _calls(lambda rng: [int(rng.integers(0, 20))], "put(name, amount); put(name, amount)"),
        ACCOUNTS,
        (ACCOUNTS.replace("return self.table[name]", "return amount"),),
        gives="accounts",
        asks="Its other methods:",
        kind="class",
    ),
    Frame(
        "An object stores at most `limit` values by key. `put(key, value)` stores a value (replacing any old value "
        "of that key) and makes its key the newest; if there are then more than `limit` keys, the oldest key is "
        "removed with its value. It returns None.",
        "limit",
        _calls(_limit(1, 3), "put(key, value); put(key, value)"),
        CACHE,
        (CACHE.replace("self.table.pop(key, None)\n    ", ""), CACHE.replace("> self.limit", ">= self.limit")),
        gives="cache",
        asks="Its other methods:",
        kind="class",
    ),
    Frame(
        "An object is a 24-hour clock that starts at `hour` and `minute`. `go(minutes)` advances it and returns a "
        "tuple (hour, minute).",
        "hour, minute",
        _calls(lambda rng: [int(rng.integers(24)), int(rng.integers(60))], "go(minutes); go(minutes)"),
        CLOCK,
        (CLOCK.replace("% 1440", "% 720"), CLOCK.replace("self.now // 60, self.now % 60", "self.now % 60, self.now // 60")),
        gives="clock",
        asks="Its other methods:",
        kind="class",
    ),
)


def _method(head: str, says: str, body: str, *slips: str, slots: Mapping[str, Slot] | None = None, key: str = "") -> Rule:
    name, _, rest = head.partition("(")
    parameters = ", ".join(["self", *([rest.rstrip(")")] if rest.rstrip(")") else [])])

    def code(text: str) -> str:
        return f"def {name}({parameters}):\n" + "\n".join(f"    {line}" for line in text.split("\n"))

    return Rule(f"`{head}` {says}", code(body), tuple(code(slip) for slip in slips), slots or {}, key=key or name)


METHODS = (
    *typed(
        "store",
        (
            _method(
                "take()",
                "removes the newest number and returns it, or returns None if there is none.",
                "return self.values.pop() if self.values else None",
                "return self.values.pop(0) if self.values else None",
                "return self.values[-1] if self.values else None",
            ),
            _method(
                "take()",
                "removes the oldest number and returns it, or returns None if there is none.",
                "return self.values.pop(0) if self.values else None",
                "return self.values.pop() if self.values else None",
                "return self.values[0] if self.values else None",
            ),
            _method(
                "take()",
                "removes the smallest number (the oldest one if it occurs several times) and returns it, or returns "
                "None if there is none.",
                "if not self.values:\n    return None\nsmallest = min(self.values)\n"
                "self.values.remove(smallest)\nreturn smallest",
                "if not self.values:\n    return None\nsmallest = max(self.values)\n"
                "self.values.remove(smallest)\nreturn smallest",
                "return min(self.values) if self.values else None",
            ),
            _method(
                "total()",
                "returns the sum of the numbers.",
                "return sum(self.values)",
                "return len(self.values)",
                "return sum(set(self.values))",
            ),
            _method(
                "above(value)",
                "returns how many of the numbers are greater than `value`.",
                "return sum(v > value for v in self.values)",
                "return sum(v >= value for v in self.values)",
            ),
            _method(
                "drop(n)",
                "removes the `n` oldest numbers (all of them if there are fewer) and returns how many it removed.",
                "gone = len(self.values[:n])\nself.values = self.values[n:]\nreturn gone",
                "gone = len(self.values[:n])\nself.values = self.values[:-n] if n else self.values\nreturn gone",
                "self.values = self.values[n:]\nreturn n",
            ),
            _method(
                "look(i)",
                "returns the number at index `i` counted from the newest (0 is the newest) without removing it, or "
                "None if there are not that many.",
                "return self.values[-1 - i] if i < len(self.values) else None",
                "return self.values[i] if i < len(self.values) else None",
                "return self.values[-i] if i < len(self.values) else None",
            ),
            _method(
                "flip()",
                "reverses the order of the numbers, so that the oldest becomes the newest, and returns None.",
                "self.values.reverse()",
                "self.values.sort()",
            ),
            _method(
                "scale()",
                "multiplies all numbers by $k and returns them as a list, oldest first.",
                "self.values = [v * $k for v in self.values]\nreturn list(self.values)",
                "return [v * $k for v in self.values]",
                slots={"k": choice(-1, 2, 3)},
            ),
        ),
    ),
    *typed(
        "accounts",
        (
            _method(
                "take(name, amount)",
                "withdraws an amount from an account and returns True; if the balance would fall below minus "
                "`limit`, or there is no such account, it changes nothing and returns False.",
                "if name not in self.table or self.table[name] - amount < -self.limit:\n    return False\n"
                "self.table[name] -= amount\nreturn True",
                "if name not in self.table or self.table[name] - amount < 0:\n    return False\n"
                "self.table[name] -= amount\nreturn True",
                "if name not in self.table or self.table[name] - amount <= -self.limit:\n    return False\n"
                "self.table[name] -= amount\nreturn True",
            ),
            _method(
                "move(name, other, amount)",
                "moves an amount from account `name` to account `other` if both exist and the first has at least "
                "that balance, and returns whether it did.",
                "if name not in self.table or other not in self.table or self.table[name] < amount:\n"
                "    return False\nself.table[name] -= amount\nself.table[other] += amount\nreturn True",
                "if name not in self.table or other not in self.table or self.table[name] <= amount:\n"
                "    return False\nself.table[name] -= amount\nself.table[other] += amount\nreturn True",
                "if name not in self.table or self.table[name] < amount:\n    return False\n"
                "self.table[name] -= amount\nself.table[other] = self.table.get(other, 0) + amount\n"
                "return True",
            ),
            _method(
                "close(name)",
                "closes an account and returns its balance, or None if there is no such account.",
                "return self.table.pop(name, None)",
                "return self.table.pop(name, 0)",
                "return self.table.get(name)",
            ),
            _method(
                "rich(amount)",
                "returns the sorted list of the names whose balance is at least `amount`.",
                "return sorted(name for name, held in self.table.items() if held >= amount)",
                "return sorted(name for name, held in self.table.items() if held > amount)",
                "return sorted(self.table)",
            ),
            _method(
                "total()", "returns the sum of all accounts.", "return sum(self.table.values())", "return len(self.table)"
            ),
            _method(
                "charge()",
                "takes a fee of $k from every account whose balance is greater than $k and returns how many paid.",
                "paying = [name for name, held in self.table.items() if held > $k]\nfor name in paying:\n"
                "    self.table[name] -= $k\nreturn len(paying)",
                "paying = [name for name, held in self.table.items() if held >= $k]\nfor name in paying:\n"
                "    self.table[name] -= $k\nreturn len(paying)",
                "for name in self.table:\n    self.table[name] -= $k\nreturn len(self.table)",
                slots={"k": integer(1, 12)},
            ),
            _method(
                "best()",
                "returns the name with the highest balance (in a tie, the first alphabetically), or None if there is "
                "no account.",
                "return min(self.table, key=lambda name: (-self.table[name], name)) if self.table else None",
                "return max(self.table, key=lambda name: (self.table[name], name)) if self.table else None",
            ),
        ),
    ),
    *typed(
        "cache",
        (
            _method(
                "get(key)",
                "returns the value of a key and makes the key the newest, or returns None if there is no such key.",
                "if key not in self.table:\n    return None\nself.table[key] = self.table.pop(key)\nreturn self.table[key]",
                "return self.table.get(key)",
            ),
            _method(
                "get(key)",
                "returns the value of a key, or -$k if there is no such key; it changes nothing.",
                "return self.table.get(key, -$k)",
                "return self.table.get(key)",
                "if key not in self.table:\n    return -$k\nself.table[key] = self.table.pop(key)\nreturn self.table[key]",
                slots={"k": integer(1, 9)},
            ),
            _method(
                "keys()",
                "returns the list of the keys, oldest first.",
                "return list(self.table)",
                "return sorted(self.table)",
                "return list(self.table)[::-1]",
            ),
            _method(
                "drop(key)",
                "removes a key and returns whether it was there.",
                "return self.table.pop(key, None) is not None",
                "return key in self.table",
            ),
            _method(
                "raise_all(value)",
                "adds `value` to every stored value and returns the largest of the new values, or None if there are none.",
                "for key in self.table:\n    self.table[key] += value\nreturn max(self.table.values(), default=None)",
                "return max((v + value for v in self.table.values()), default=None)",
                "for key in self.table:\n    self.table[key] += value\n"
                "return list(self.table.values())[-1] if self.table else None",
            ),
            _method(
                "forget()",
                "removes the oldest key and returns it, or returns None if there is none.",
                "key = next(iter(self.table), None)\nself.table.pop(key, None)\nreturn key",
                "key = next(reversed(self.table), None)\nself.table.pop(key, None)\nreturn key",
                "return next(iter(self.table), None)",
            ),
            _method(
                "grow()",
                "raises the limit by one and returns how many more keys the object can take.",
                "self.limit += 1\nreturn self.limit - len(self.table)",
                "self.limit += 1\nreturn self.limit",
                "return self.limit + 1 - len(self.table)",
            ),
        ),
    ),
    *typed(
        "clock",
        (
            _method(
                "text()",
                "returns the time as HH:MM, with two digits each.",
                "return f'{self.now // 60:02}:{self.now % 60:02}'",
                "return f'{self.now // 60}:{self.now % 60}'",
                "return f'{self.now // 60:02}:{self.now % 60}'",
            ),
            _method(
                "text()",
                "returns the time in 12-hour format, such as 12:05 am, 9:30 am, 12:00 pm, 11:59 pm.",
                "h, m = divmod(self.now, 60)\nreturn f\"{(h - 1) % 12 + 1}:{m:02} {'am' if h < 12 else 'pm'}\"",
                "h, m = divmod(self.now, 60)\nreturn f\"{h % 12}:{m:02} {'am' if h < 12 else 'pm'}\"",
                "h, m = divmod(self.now, 60)\nreturn f\"{(h - 1) % 12 + 1}:{m:02} {'am' if h <= 12 else 'pm'}\"",
            ),
            _method(
                "back(minutes)",
                "sets the clock back by `minutes` and returns the new time in minutes since midnight.",
                "self.now = (self.now - minutes) % 1440\nreturn self.now",
                "self.now = max(self.now - minutes, 0)\nreturn self.now",
                "return (self.now - minutes) % 1440",
            ),
            _method(
                "until(hour)",
                "returns how many minutes remain until the clock next shows `hour`:00 (0 if it shows that now).",
                "return (60 * hour - self.now) % 1440",
                "return abs(60 * hour - self.now)",
                "return (60 * hour - self.now - 1) % 1440 + 1",
            ),
            _method(
                "round()",
                "rounds the time to the nearest multiple of $k minutes after midnight (a tie rounds up) and returns "
                "the new time in minutes since midnight.",
                "self.now = (self.now + $k // 2) // $k * $k % 1440\nreturn self.now",
                "self.now = self.now // $k * $k\nreturn self.now",
                "return (self.now + $k // 2) // $k * $k % 1440",
                slots={"k": choice(10, 20, 30, 60)},
            ),
            _method(
                "night()",
                "returns whether the time is $a:00 or later, or earlier than $b:00.",
                "return self.now >= 60 * $a or self.now < 60 * $b",
                "return self.now > 60 * $a + 59 or self.now < 60 * $b",
                "return 60 * $b <= self.now < 60 * $a",
                slots={"a": integer(19, 23), "b": integer(4, 8)},
            ),
            _method(
                "angle()",
                "returns the smaller angle between the two hands of a 12-hour clock, in half degrees (an integer "
                "from 0 to 360).",
                "apart = abs(self.now % 720 - 12 * (self.now % 60))\nreturn min(apart, 720 - apart)",
                "apart = abs(self.now % 720 - 12 * (self.now % 60))\nreturn apart",
                "apart = abs(60 * (self.now // 60 % 12) - 12 * (self.now % 60))\nreturn min(apart, 720 - apart)",
            ),
        ),
    ),
)
FAMILY = ProgramFamily("classes", FRAMES, METHODS, fewest=2, names=("Box", "Keeper", "Thing", "Holder", "Device"))
