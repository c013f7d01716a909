"""Every task of the genuine reasoning-gym package: made, answered, and kept from evaluating what a model wrote."""

import pytest

pytest.importorskip("reasoning_gym", reason="needs the extra `reasoning-gym`: ./dev test-reasoning-gym runs this")

from agentgym.contract import check
from agentgym.core.actions import spell
from agentgym.envs.reasoning_gym import ReasoningGym, gates, package
from agentgym.envs.reasoning_gym.env import _trusted
from agentgym.errors import BadConfig, UnknownName

NAMES = [name for name, reason in package.table().items() if not reason]
ANSWERED = [name for name in NAMES if name not in gates.UNANSWERED]
HOSTILE = [
    *("__import__('os')._exit(0)", "NaN", "[NaN]", "inf", "1e9999999", "9**9**9**9", "10**(10**10)"),
    *("(" * 3000, "[" * 3000),
]
ANOTHER: dict[tuple[str, ...], object] = {}  # another process of those that make tasks, once for all tests
QUICK = [*gates.GATES, "rubiks_cube", "graph_color", "propositional_logic", "rush_hour", "number_sorting", "zebra_puzzles"]


def answered(name: str, *texts: str, number: int = 0, **options: object) -> tuple[float, bool]:
    """Return reward and success of the last of some answers."""
    env = ReasoningGym(dataset=name, **options)
    env.reset(seed=0, options={"task": number})
    steps = [env.step(spell("answer", text)) for text in texts]
    return steps[-1][1], steps[-1][4]["success"]


def test_only_what_has_a_reason_is_refused() -> None:
    refused = {name: reason for name, reason in package.table().items() if reason}
    assert list(refused) == ["composite"]
    assert len(NAMES) >= 105
    with pytest.raises(BadConfig, match="'composite' of reasoning-gym is refused: it is a mixture"):
        ReasoningGym(dataset="composite")
    with pytest.raises(UnknownName, match="Did you mean 'countdown'"):
        ReasoningGym(dataset="countdwn")


def test_a_scorer_that_evaluates_and_that_nobody_has_looked_at_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(package, "GATES", {})
    package._called.cache_clear()
    refused = {name for name, reason in package.table().items() if "nobody has looked" in reason}
    evaluating = set(gates.GATES) - {"polynomial_equations", "game_of_life_halting"}
    assert refused == evaluating


def right_answer(name: str, level: int, seed: int) -> None:
    env = ReasoningGym(dataset=name, difficulty=level)
    observation, info = env.reset(seed=seed, options={"task": seed})
    assert observation and info["success"] is None and len(observation) <= 65536
    assert env.step(next(env.oracle()))[1] == 1.0
    env.reset(seed=seed, options={"task": seed})
    for text in (
        "__import__('os')._exit(0)",
        "NaN",
        "[NaN]",
        "inf",
        "9**9**9**9",
        "10**(10**10)",
        "(" * 3000,
        "[" * 3000,
        "1e9999999",
    ):
        assert env.step(spell("answer", text))[1:3] == (0.0, True), text
        env.reset(seed=seed, options={"task": seed})


@pytest.mark.parametrize("name", QUICK)
def test_some_tasks_take_their_own_answers_and_no_hostile_ones(name: str, monkeypatch) -> None:
    monkeypatch.setattr("agentgym.envs.reasoning_gym.env.SCORE", 1.5)  # two hostile ones take all the time that there is
    right_answer(name, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERED)
def test_every_task_takes_its_own_answers_and_no_hostile_ones(name: str) -> None:
    for level, seed in ((0, 0), (1, 3)):
        right_answer(name, level, seed)


@pytest.mark.parametrize("name", sorted(set(gates.GATES) - {"polynomial_equations", "game_of_life_halting"}))
def test_what_a_model_wrote_is_not_evaluated(name: str, tmp_path, monkeypatch) -> None:
    """And it would be, were there no gate: the test sees that too."""
    canary = tmp_path / "canary"
    answered(name, f"[open({str(canary)!r}, 'w')]")
    assert not canary.exists()
    monkeypatch.setattr("agentgym.envs.reasoning_gym.env.passes", lambda *_: True)
    monkeypatch.setattr("agentgym.envs.reasoning_gym.env._uses", lambda *_: True)
    answered(name, f"[open({str(canary)!r}, 'w')]")
    assert canary.exists()


@pytest.mark.parametrize(("name", "text"), [("rush_hour", "A+99999999999"), ("coin_flip", "1e99999999")])
def test_what_a_scorer_would_never_finish_is_ended(name: str, text: str, monkeypatch) -> None:
    monkeypatch.setattr("agentgym.envs.reasoning_gym.env.SCORE", 0.5)
    assert answered(name, text) == (0.0, False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("number_sorting", "[{}]"),
        ("complex_arithmetic", "nan"),
        ("puzzle24", "4*6*1*1"),
        ("puzzle24", "1" * 5000),  # more digits than Python makes an int of
        ("game_of_life_halting", "whatever"),
        ("polynomial_equations", "whatever"),
        ("countdown", "1+1"),
        ("prime_factorization", "True"),
        ("boxnet", "3"),
        ("rush_hour", "A+9"),
    ],
)
def test_loopholes_of_scorers_are_closed(name: str, text: str) -> None:
    for number in range(5):
        env = ReasoningGym(dataset=name)
        env.reset(seed=0, options={"task": number})
        count = (env.task.data["answer"] or "").count(",") + 1
        assert env.step(spell("answer", text.replace("{}", ", ".join(["NaN"] * count))))[1:3] == (0.0, True)


def test_puzzle24_wants_the_numbers_of_the_puzzle() -> None:
    env = ReasoningGym(dataset="puzzle24")
    for number in range(3):
        env.reset(seed=0, options={"task": number})
        assert env.step(next(env.oracle()))[1] == 1.0


def test_partial_scores_are_a_measure_and_are_paid_only_where_asked_for() -> None:
    env = ReasoningGym(dataset="spell_backward", attempts=2, shaping={"score": 0.5})
    env.reset(seed=0, options={"task": 0})
    right = env.task.data["answer"]
    wrong = right[:-1] + ("x" if right[-1] != "x" else "y")
    text, reward, _, _, info = env.step(spell("answer", wrong))
    assert "Let's try again: 1 attempt left." in text
    share = (len(right) - 1) / len(right)
    assert reward == pytest.approx(0.5 * share) and info["success"] is None
    assert env.step(spell("answer", right))[1] == pytest.approx(1 + 0.5 * (1 - share))
    assert answered("spell_backward", "zzz", right, attempts=2) == (1.0, True)


def test_config_goes_to_the_generator_and_difficulty_to_the_curriculum() -> None:
    env = ReasoningGym(dataset="chain_sum", config={"min_terms": 9, "max_terms": 9, "min_digits": 1, "max_digits": 1})
    env.reset(seed=0)
    assert sum(env.observation.count(sign) for sign in "+-") >= 8
    lengths = [
        sum(len(task.instruction) for task in ReasoningGym(dataset="chain_sum", difficulty=d).tasks(5)) for d in (0, 4)
    ]
    assert lengths[1] > lengths[0]
    with pytest.raises(BadConfig, match="give its name as dataset"):
        ReasoningGym(config={"min_terms": 3})


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("isomorphic_strings", 7),
        ("ransom_note", 7),
        ("polynomial_multiplication", 7),
        ("word_ladder", 7),
        ("codeio", 1502202641),
    ],
)
def test_tasks_are_the_same_in_every_process(name: str, seed: int, monkeypatch) -> None:
    """These generators go through sets, whose order hangs on the hash seed, or draw from numpy's global generator."""
    from agentgym.rewards import bounded

    first = _trusted("generate", name, 0, "{}", seed)
    monkeypatch.setenv("PYTHONHASHSEED", "12345")
    monkeypatch.setattr(bounded, "_servers", ANOTHER)
    assert _trusted("generate", name, 0, "{}", seed) == first


def test_the_contract_holds_with_attempts() -> None:
    checks = ["same again", "equal keys", "outcome alone", "failure never wins", "snapshots here", "oracle recovers"]
    report = check("rlvr/ReasoningGym-v0", dataset=("chain_sum", "word_sorting"), attempts=3, checks=checks)
    assert report.ok, str(report)


@pytest.mark.slow
def test_oracle_solves_200_tasks_of_the_mixture() -> None:
    env = ReasoningGym()
    for task in env.tasks(200):
        env.reset(seed=0, options={"task": task})
        env.step(next(env.oracle()))
        assert env.success, task


def test_no_task_changes_the_precision_of_those_after_it() -> None:
    """`decimal_arithmetic` of reasoning-gym 0.1.25 sets the precision of all decimals of its process."""
    place = ("decimal_chain_sum", 3, "{}", 1014749736)
    before = package.generate(*place)
    package._entry.cache_clear()
    package.generate("decimal_arithmetic", 0, "{}", 1)
    assert package.generate(*place) == before
    assert before["answer"] == "167231.22185384"  # the sum that the question states, by hand
