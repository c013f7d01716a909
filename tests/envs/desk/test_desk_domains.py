"""Every domain of the desk: oracle, expert, and sentences that state what they should; and how a text is read."""

import numpy as np
import pytest

import agentgym
from agentgym.envs.desk import generate, people
from agentgym.envs.desk.domain import code
from agentgym.envs.desk.domains import DOMAINS
from agentgym.envs.desk.statements import by_matter, values


def test_values_and_matters_of_a_text():
    text = (
        "On 3 March 2026 you paid $1,250.5 for 2 bags; USD 7 more, that is 12.00 dollars, 15 % off at 10:30 (B-12345, A4)."
    )
    assert [value for _, *value in values(text)] == [
        ["date", "2026-03-03"],
        ["money", "$1250.50"],
        ["number", "2"],
        ["money", "$7.00"],
        ["money", "$12.00"],
    ]
    odd = "It is free of charge, on Feb 30, 2026 or 2026-2-3."
    assert [value for _, _, value in values(odd)] == ["$0.00", "2026-02-03"]
    assert by_matter("$1.00 for R-10001, $2.00 then R-10002: $3.00", ["R-10001", "R-10002"]) == {
        "R-10001": {"money": ["$1.00", "$2.00"]},
        "R-10002": {"money": ["$3.00"]},
    }
    assert by_matter("$1.00", ["R-10001", "R-10002"]) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("difficulty", [0, 5])
def test_every_domain_is_solved_and_says_what_it_means(name, difficulty):
    env = agentgym.make("rlvr/Desk-v0", domains=name, difficulty=difficulty)
    intents, refused = set(), 0
    for number in range(12):
        for policy in (env.oracle, env.expert):
            env.reset(seed=0, options={"task": env.numbered(number)})
            while env.success is None:
                env.step(next(policy()))
            assert env.success, (number, policy)
        for one in env.task.data["matters"]:
            intents.add(one["intent"])
            refused += one["write"] is None
            stated = by_matter(one["text"], [one["ref"]])[one["ref"]]
            for kind, value in one["facts"]:  # the sentence has that value and no other of the kind, but choices
                assert [
                    statement for statement in stated[kind] if statement not in one["choices"] or statement == value
                ] == [value]
    assert refused and (difficulty == 0 or intents == set(DOMAINS[name].intents))


def test_keys_do_not_run_out():
    """At difficulty 600 an airline has more flights than there are keys of five digits."""
    rng = np.random.default_rng(0)
    assert len(code(rng, "F", dict.fromkeys(range(45_000)))) == len("F-12345")
    assert len(code(rng, "F", dict.fromkeys(range(45_001)))) == len("F-123456")


def test_every_customer_has_an_id_of_their_own():
    assert len(people.customers(np.random.default_rng(0), 5000, 0)) == 5000


def test_a_stranger_never_has_the_customers_zip_code(monkeypatch):
    monkeypatch.setattr(generate, "STRANGERS", 1.0)
    monkeypatch.setattr(people, "zip_code", lambda rng: str(10000 + int(rng.integers(2))))
    for seed in range(20):
        data = generate.draw(np.random.default_rng(seed), 2, list(DOMAINS))
        assert data["stranger"] and data["who"]["zip_code"] != data["tables"]["customers"][data["customer"]]["zip_code"]
