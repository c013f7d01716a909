"""Tasks, variations and published splits, available without starting the simulator."""

VARIATIONS = {
    "boil": 30,
    "melt": 30,
    "freeze": 30,
    "change-the-state-of-matter-of": 30,
    "use-thermometer": 540,
    "measure-melting-point-known-substance": 436,
    "measure-melting-point-unknown-substance": 300,
    "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600,
    "find-living-thing": 300,
    "find-non-living-thing": 300,
    "find-plant": 300,
    "find-animal": 300,
    "grow-plant": 126,
    "grow-fruit": 126,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36,
    "lifespan-longest-lived": 125,
    "lifespan-shortest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "mendelian-genetics-known-plant": 120,
    "mendelian-genetics-unknown-plant": 480,
}
"""Number of variations per task, in the order of ScienceWorld's list (scienceworld 1.2.3)."""

LIMIT = 100
"""Maximum number of moves per episode: the default of ScienceWorld's `envStepLimit` (scienceworld 1.2.3)."""
TURNS = {
    "boil": 250,
    "melt": 200,
    "freeze": 200,
    "change-the-state-of-matter-of": 200,
    "grow-fruit": 150,
    "inclined-plane-determine-angle": 200,
    "inclined-plane-friction-named-surfaces": 1000,
    "inclined-plane-friction-unnamed-surfaces": 300,
    "mendelian-genetics-known-plant": 325,  # variation 118 takes 257
    "mendelian-genetics-unknown-plant": 325,
}
"""Turn limits of tasks whose solutions exceed 100 turns: the longest solution observed plus a quarter."""


def split_of(name: str, variation: int) -> str:
    """Return the published split: the first two quarters of a task's variations are train, the third dev, the rest test.

    A quarter is the number of variations divided by 4, rounded down.
    """
    group = variation // (VARIATIONS[name] // 4)
    return "train" if group < 2 else "dev" if group == 2 else "test"


def variations(name: str, split: str) -> list[int]:
    """Return a task's variations in a split."""
    return [number for number in range(VARIATIONS[name]) if split_of(name, number) == split]
