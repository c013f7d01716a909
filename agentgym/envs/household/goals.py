"""The six kinds of goals: their wording, their PDDL form, and a parser."""

from dataclasses import dataclass

from agentgym.envs.household.catalog import TASK_TYPES
from agentgym.envs.household.problem import Tree
from agentgym.errors import BadData

TEMPLATES = {
    TASK_TYPES[0]: ("put a {obj} in {recep}", "put some {obj} on {recep}"),
    TASK_TYPES[1]: ("look at {obj} under the {lamp}", "examine the {obj} with the {lamp}"),
    TASK_TYPES[2]: ("put a clean {obj} in {recep}", "clean some {obj} and put it in {recep}"),
    TASK_TYPES[3]: ("put a hot {obj} in {recep}", "heat some {obj} and put it in {recep}"),
    TASK_TYPES[4]: ("put a cool {obj} in {recep}", "cool some {obj} and put it in {recep}"),
    TASK_TYPES[5]: ("put two {obj} in {recep}", "find two {obj} and put them in {recep}"),
}
TREATMENTS = {TASK_TYPES[2]: "clean", TASK_TYPES[3]: "heat", TASK_TYPES[4]: "cool"}
_TREATED = {"clean": ("cleanable", "isclean"), "heat": ("heatable", "ishot"), "cool": ("coolable", "iscool")}
_PLACE = {"inreceptacle", "objecttype", "receptacletype"}
_LIT = {"atlocation", "holds", "istoggled", "objecttype", "toggleable"}
_LIGHT = ({*_LIT, "inreceptacle", "receptacleatlocation"}, {*_LIT, "objectatlocation"})  # equal: no lamp moves


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal; class names have no suffix `type`."""

    type: str
    """One of `TASK_TYPES`."""
    object: str
    receptacle: str = ""
    """Class of the destination; empty for `look_at_obj_in_light`."""
    lamp: str = ""
    """Class of the lamp; only for `look_at_obj_in_light`."""

    @property
    def treatment(self) -> str:
        """Required treatment of the object: `clean`, `heat`, `cool`, or ""."""
        return TREATMENTS.get(self.type, "")

    @property
    def count(self) -> int:
        """Number of objects to place."""
        return 2 if self.type == TASK_TYPES[5] else 1

    def sentence(self, template: int) -> str:
        """Return the goal as a sentence; `template` is the index of its wording."""
        words = TEMPLATES[self.type][template]
        return words.format(obj=self.object.lower(), recep=self.receptacle.lower(), lamp=self.lamp.lower())


def goal_pddl(goal: Goal) -> str:
    """Return the goal as a PDDL condition; class names keep their upper and lower case."""
    of_type = f"(objectType ?o {goal.object}Type)"
    into = f"(receptacleType ?r {goal.receptacle}Type)"
    if goal.lamp:
        return (
            f"(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {goal.lamp}Type) "
            "(toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r))) "
            f"(exists (?o - object ?a - agent) (and {of_type} (holds ?a ?o))))"
        )
    if goal.count == 2:
        first, second = of_type.replace("?o", "?o1"), of_type.replace("?o", "?o2")
        return (
            f"(and (exists (?r - receptacle) (exists (?o1 - object) (and {first} {into} (inReceptacle ?o1 ?r) "
            f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) {second} {into} (inReceptacle ?o2 ?r)))))))"
        )
    extra = {"": ("", ""), "clean": ("(cleanable ?o) ", "(isClean ?o) "), "heat": ("(heatable ?o) ", "(isHot ?o) ")}
    before, after = extra.get(goal.treatment, ("(coolable ?o) ", "(isCool ?o) "))
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and {before}{of_type} {into} {after}(inReceptacle ?o ?r)))))"
    )


def read_goal(tree: "str | Tree", where: str = "goal") -> Goal:
    """Recognize a PDDL condition as one of the six goals, in any formatting and order.

    Raises:
        BadData: the condition is none of the six goals; the message begins with `where`.
    """
    atoms: list[tuple[str, ...]] = []
    _collect(tree, atoms)
    names = {atom[0] for atom in atoms}
    objects = {atom[1]: atom[-1].removesuffix("type") for atom in atoms if atom[0] == "objecttype"}
    targets = {(atom[1], atom[-1].removesuffix("type")) for atom in atoms if atom[0] == "receptacletype"}
    lamps = {objects[atom[1]] for atom in atoms if atom[0] == "istoggled" and atom[1] in objects}
    carried_classes = {objects[atom[-1]] for atom in atoms if atom[0] == "holds" and atom[-1] in objects}
    if names in _LIGHT and len(lamps) == len(carried_classes) == 1 and len(objects) == 2:
        return Goal(TASK_TYPES[1], carried_classes.pop(), lamp=lamps.pop())
    all_classes = {*objects.values()}
    if len(targets) == len(all_classes) == 1:
        thing, target = all_classes.pop(), targets.pop()[1]
        if names == _PLACE and len(objects) == 1:
            return Goal(TASK_TYPES[0], thing, target)
        if names == {*_PLACE, "="} and len(objects) == 2:
            return Goal(TASK_TYPES[5], thing, target)
        for kind, treatment in TREATMENTS.items():
            if names == {*_PLACE, *_TREATED[treatment]} and len(objects) == 1:
                return Goal(kind, thing, target)
    raise BadData(f"{where}: the goal is none of ALFWorld's six (its conditions: {', '.join(sorted(names))})")


def _collect(tree: "str | Tree", atoms: list[tuple[str, ...]]) -> None:
    """Append the atoms of a condition with nested conjunctions, negations and existential quantifiers to `atoms`."""
    if not isinstance(tree, list) or not tree:
        return
    head: object = tree[0]
    if head in ("and", "not"):
        for part in tree[1:]:
            _collect(part, atoms)
    elif head == "exists":
        _collect(tree[-1], atoms)
    else:
        atoms.append(tuple(str(part) for part in tree))
