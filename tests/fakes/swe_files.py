"""A repository of one module with three bugs to put in, for tests of the environment of repositories."""

from pathlib import Path

from agentgym.envs.swe.tasks import Edit, Instance, Repository, write
from agentgym.envs.swe.tasks.source import digest, tree_of

CODE = '''"""Amounts of money."""


def total(prices, discount=0):
    """Return the sum of prices less a discount in percent."""
    whole = sum(prices)
    return whole - whole * discount // 100


def share(amount, parts):
    """Return the parts of an amount, the larger ones first."""
    if parts < 1:
        raise ValueError("parts must be positive")
    least, left = divmod(amount, parts)
    return [least + 1] * left + [least] * (parts - left)


class Purse:
    """Coins."""

    def __init__(self):
        self.coins = []

    def add(self, coin):
        """Put a coin in."""
        if coin <= 0:
            raise ValueError(coin)
        self.coins.append(coin)

    def largest(self):
        """Return the largest coin, None where there is none."""
        return max(self.coins, default=None)
'''
TESTS = """import pytest

from purse import Purse, share, total


def test_total():
    assert total([1, 2, 3]) == 6


def test_total_with_a_discount():
    assert total([100, 100], 10) == 180


def test_share():
    assert share(10, 3) == [4, 3, 3]
    assert sum(share(17, 5)) == 17


@pytest.mark.parametrize("parts", [0, -1])
def test_share_among_nobody(parts):
    with pytest.raises(ValueError):
        share(1, parts)


class TestPurse:
    def test_largest(self):
        purse = Purse()
        purse.add(2)
        purse.add(5)
        assert purse.largest() == 5

    def test_empty(self):
        assert Purse().largest() is None

    def test_no_coin(self):
        with pytest.raises(ValueError):
            Purse().add(0)
"""
ALL = (
    "tests/test_purse.py::test_total",
    "tests/test_purse.py::test_total_with_a_discount",
    "tests/test_purse.py::test_share",
    "tests/test_purse.py::test_share_among_nobody[0]",
    "tests/test_purse.py::test_share_among_nobody[-1]",
    "tests/test_purse.py::TestPurse::test_largest",
    "tests/test_purse.py::TestPurse::test_empty",
    "tests/test_purse.py::TestPurse::test_no_coin",
)
BUGS = {
    "discount": ("    return whole - whole * discount // 100\n", "    return whole + whole * discount // 100\n", [1]),
    "largest": ("        return max(self.coins, default=None)\n", "        return min(self.coins, default=None)\n", [5]),
    "nobody": ("    if parts < 1:\n", "    if parts < 0:\n", [3]),
}


def make(folder: Path) -> Path:
    """Write the repository and a file with its tasks; return the file."""
    root = folder / "purse-1.0"
    (root / "tests").mkdir(parents=True)
    (root / "purse.py").write_text(CODE)
    (root / "tests" / "test_purse.py").write_text(TESTS)
    (root / "pyproject.toml").write_text('[project]\nname = "purse"\nversion = "1.0"\n')
    tree = tree_of(str(root))
    repository = Repository("purse", str(root), digest(tree), "train", ALL)
    path = folder / "purse.jsonl"
    write(path, [instance(repository, name) for name in BUGS])
    return path


def instance(repository: Repository, name: str) -> Instance:
    right, wrong, failing = BUGS[name]
    return Instance(
        id=f"purse-{name}",
        repository=repository,
        issue=f"Something is wrong with {name}.",
        bug=(Edit("purse.py", right, wrong),),
        fail_to_pass=tuple(ALL[number] for number in failing),
        pass_to_pass=tuple(test for number, test in enumerate(ALL) if number not in failing),
        kind="by hand",
        difficulty=0,
        seconds=0.3,
    )
