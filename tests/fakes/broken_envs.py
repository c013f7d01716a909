"""Two sound little environments, and for every check an environment that breaks it."""

from types import MappingProxyType

import gymnasium

import agentgym
from agentgym import Fault, Outcome, Task, TextEnv
from agentgym.core.declared import Declarations


class Stairs(TextEnv):
    """Climb to the step that is asked for and say so: sound."""

    # half the goals lie upwards
    declared = Declarations(random_bound=0.9, ceilings={"first admissible": 1.0, "last admissible": 1.0})

    def begin(self, task):
        self.place, self.goal = task.data["start"], task.data["goal"]
        return self.look()

    def look(self):
        return f"You stand on step {self.place}. Go to step {self.goal}."

    def act(self, action):
        if action not in ("up", "down"):
            return self.invalid("Say up or down.")
        self.place += 1 if action == "up" else -1
        return self.win("There.") if self.place == self.goal else self.look()

    def admissible(self):
        return ["up", "down"]

    def state(self):
        return self.place, self.goal

    def measures(self):
        return {"near": 1 / (1 + abs(self.goal - self.place))}

    def oracle(self):
        place = self.place
        while place != self.goal:
            yield "up" if place < self.goal else "down"
            place += 1 if place < self.goal else -1

    def expert(self):
        return self.oracle()

    def generate(self, rng, difficulty):
        start = int(rng.integers(0, 1000))
        return Task("climb", {"start": start, "goal": start + int(rng.choice([-3, -2, 2, 3]))})

    def shortcuts(self):
        return {"claim": lambda observations: "There."}


class Vault(TextEnv):
    """Open a vault whose code is on a note: sound, with tools."""

    declared = Declarations(answers=("code",))

    def begin(self, task):
        self.code, self.read = task.data["code"], False
        return "A vault. There is a note."

    @agentgym.tool
    def note(self) -> str:
        """Read the note."""
        self.read = True
        return f"The code is {self.code}."

    @agentgym.tool
    def open(self, code: str) -> Outcome:
        """Open the vault."""
        return self.win("Open.") if code == self.code else self.lose("Alarm.")

    def state(self):
        return self.code, self.read

    def oracle(self):
        yield f"open[{self.code}]"

    def expert(self):
        yield f"open[{self.code}]" if self.read else "note[]"

    def generate(self, rng, difficulty):
        return Task("open", {"code": f"{rng.integers(0, 10**6):06d}"})


class RemembersPlays(Stairs):
    played = 0

    def begin(self, task):
        type(self).played += 1
        return f"{super().begin(task)} Play {self.played}."


class LeaksHashes(Stairs):
    def look(self):
        return super().look() + f" ({hash('stairs') % 1000})"


class AnyTaskAnySplit(Stairs):
    def numbered(self, number, split=None, difficulty=None):
        task = super().numbered(number, "train", difficulty)
        return Task(task.instruction, task.data, f"{split or self.split}/0/{number}", split or self.split)


class TellsTheCode(Vault):
    declared = Declarations(answers=("codes",))  # one of several spellings, as questions have them

    def generate(self, rng, difficulty):
        task = super().generate(rng, difficulty)
        return Task(task.instruction, {**task.data, "codes": ["12", task.data["code"]]})

    def begin(self, task):
        return super().begin(task) + f" It says {self.code}."


class TakesAnything(Stairs):
    def __init__(self, **options):
        super().__init__(**{k: v for k, v in options.items() if k in self.option_names()})


class ReadsNumbers(Stairs):
    def act(self, action):
        return super().act("up" if action.isdigit() and int(action) < 0 else action)


class HearsCallsInProse(Vault, replaces=("step",)):
    def step(self, action):
        found = isinstance(action, str) and action.rfind("note[]")
        return super().step("note[]" if isinstance(found, int) and found > 0 else action)


class MoreInfoLater(Stairs, replaces=("step",)):
    def step(self, action):
        *rest, info = super().step(action)
        return *rest, {**info, "turn": self.turn}


class OffersJumps(Stairs):
    def admissible(self):
        return ["up", "down", "jump"]


class LosesPatience(Stairs):
    def begin(self, task):
        self.patience = 30
        return super().begin(task)

    def act(self, action):
        self.patience -= 1
        return self.lose("Enough.") if self.patience < 0 else super().act(action)


class MovesWhenSeen(Stairs):
    def state(self):
        self.place += int(self.np_random.random() < 0.5)
        return super().state()


class PaysByDefault(Stairs):
    shaping = MappingProxyType({"near": 0.5})


class PaysAgainAndAgain(Stairs, replaces=("_pay",)):
    def _pay(self, outcome):
        rewards = {"success": 1.0} if outcome.success else {}
        return rewards | {name: weight * self.measures()[name] for name, weight in self.shaping.items()}


class NeverEnds(Stairs, replaces=("reset",)):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.limit = 10_000
        return result


class SharesWhatChanges(Stairs):
    shared = ("trail",)

    def begin(self, task):
        self.trail = []
        return super().begin(task)

    def act(self, action):
        self.trail.append(action)
        return super().act(action)

    def look(self):
        return f"{super().look()} Steps taken: {len(self.trail)}."

    def state(self):
        return *super().state(), len(self.trail)


class HoldsAFunction(Stairs):
    def begin(self, task):
        self.rule = lambda: None
        return super().begin(task)


class KeepsItsChance(Stairs, replaces=("restore",)):
    def restore(self, state, *, seed=None):
        return super().restore(state)


class OracleOfDoom(Stairs):
    def oracle(self):
        while self.turn < 40:
            yield "down"


class OracleByHeart(Stairs):
    def oracle(self):
        start, goal = self.task.data["start"], self.task.data["goal"]
        for _ in range(abs(goal - start) - self.turn):
            yield "up" if start < goal else "down"


class ExpertPeeks(Vault):
    def expert(self):
        yield f"open[{self.code}]"


class ExpertFails(Vault):
    def expert(self):
        yield "open[0]"


class HintTells(Vault):
    def hint(self, level):
        return f"Have you tried {self.code}?"


class BelievesClaims(Stairs):
    def act(self, action):
        return self.win("If you say so.") if "success" in action else super().act(action)


class TooEasy(Stairs):
    declared = Declarations(random_bound=0.1)


class FaultsAreLosses(Stairs, replaces=("_respond",)):
    def _respond(self, action):
        try:
            return super()._respond(action)
        except Fault:
            return self.lose("Something broke.")


class Wrapped(Stairs):
    pass


class Flickers(Stairs):
    """Which says that its words differ, and has success now and then alone."""

    declared = Declarations(nondeterministic="a coin is thrown outside", random_bound=0.9, ceilings=Stairs.declared.ceilings)
    thrown = 0

    def act(self, action):
        type(self).thrown += 1
        return self.win("Heads.") if self.thrown % 3 == 0 else self.lose("Tails.")


class LeavesTests(Stairs):
    def found_hidden(self):
        return ["/app/tests/test_it.py"]


class DoubtsItsAnswers(Stairs):
    def validated(self, task):
        return task.data["start"] % 2 == 0


BREAKS = {
    "same again": RemembersPlays,
    "same elsewhere": LeaksHashes,
    "same verdict": Flickers,
    "splits are disjoint": AnyTaskAnySplit,
    "answers stay hidden": TellsTheCode,
    "tests stay hidden": LeavesTests,
    "bad options are refused": TakesAnything,
    "nasty actions": ReadsNumbers,
    "spellings": HearsCallsInProse,
    "info schema": MoreInfoLater,
    "admissible is valid": OffersJumps,
    "equal keys": LosesPatience,
    "looking changes nothing": MovesWhenSeen,
    "outcome alone": PaysByDefault,
    "failure never wins": PaysAgainAndAgain,
    "horizons": NeverEnds,
    "snapshots here": SharesWhatChanges,
    "snapshots elsewhere": HoldsAFunction,
    "chance afresh": KeepsItsChance,
    "oracle solves": OracleOfDoom,
    "reference holds": DoubtsItsAnswers,
    "oracle recovers": OracleByHeart,
    "expert is fair": ExpertPeeks,
    "expert is good": ExpertFails,
    "hints": HintTells,
    "shortcut policies fail": BelievesClaims,
    "chance is poor": TooEasy,
    "infrastructure errors": FaultsAreLosses,
    "made bare": Wrapped,
}

for _kind in (Stairs, Vault, *BREAKS.values()):
    if f"broken/{_kind.__name__}-v0" not in gymnasium.registry:
        if _kind is Wrapped:
            gymnasium.register("broken/Wrapped-v0", Wrapped, max_episode_steps=5)
        else:
            agentgym.register(f"broken/{_kind.__name__}-v0", _kind)
