"""Rewards for searching and repairing: R-Search's evidence, ReZero's queries, SWE-RL's patches."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from paid_tries import paid, tried

from agentgym.engines import Completion
from agentgym.errors import BadConfig, Fault
from agentgym.trainers import TrainConfig
from agentgym.trainers.rewards.evidence import passages
from agentgym.trainers.rewards.interface import pay, resolve_rewards
from agentgym.trainers.run.preflight import check_run


def searched(*actions, keys=None, reason="failure"):
    made = tried(reason == "success", *actions)
    made.reason = reason
    for number, turn in enumerate(made.turns):
        turn.observation, turn.state_key = f"seen {number}", (keys or range(len(actions)))[number]
    made.final_state_key = "end"
    return made


def test_retry_after_what_brought_nothing():
    actions = ("search[a]", "search[b]", "search[c]", "search[c]", "search[d]", "answer[x]")
    # a and c bring nothing (the state stays), b does; c again is no new query, and brings something
    made = searched(*actions, keys=["0", "0", "1", "1", "1", "2"])
    assert paid("retry", made, failed=True, weight=0.2, decay=0.5)[0]["retry"] == [0, 0.2, 0, 0, 0.1, 0]
    assert paid("retry", made, weight=0.2, decay=0.5)[0]["retry"] == [0, 0.2, 0.1, 0, 0.05, 0]


def test_query_diversity_by_hand():
    one = searched("search[ab]", "search[cd]", "answer[x]")
    # "search ab" and "search cd": 7 of 9 characters in common
    assert paid("query_diversity", one, weight=0.9)[0]["query_diversity"] == pytest.approx(0.9 * (1 - 7 / 9))
    again = searched("search[ab]", "search[ab]", "search[cd]", "answer[x]")
    assert paid("query_diversity", again, weight=0.9)[0]["query_diversity"] == pytest.approx(0.9 * 2 / 3 * (1 - 7 / 9))
    for none in (searched("search[ab]", "answer[x]"), searched("search[ab]", "search[cd]", reason="horizon")):
        assert paid("query_diversity", none)[0]["query_diversity"] == 0.0


class Reader:
    """A frozen model that knows what the last passage says, and notes what it was asked."""

    prompts: list[str] = []  # noqa: RUF012 (of the test that looks)
    answer = "In Paris."

    async def chat(self, messages, tools, sampling, session):
        prompt = messages[0]["content"]
        type(self).prompts.append(prompt)
        if "broken" in prompt:
            raise Fault("no answer", reason="engine")
        return Completion([], [], "stop", text=self.answer if "the tower stands in Paris" in prompt else "nobody knows")

    def close(self):
        pass


def run(folder):
    task = SimpleNamespace(instruction="q", data={"question": "Where is the tower?", "answers": ["Paris"]})
    return SimpleNamespace(folder=folder, task=lambda episode: task)


def of_evidence(folder, *made, **options):
    stages = resolve_rewards(["evidence"], {"engine": f"{__name__}:Reader", **options})
    asyncio.run(pay(list(made), stages, step=0, run=run(folder)))
    return [episode.turns[-1].rewards.get("evidence") for episode in made]


def test_evidence_is_worth_what_a_frozen_model_answers_from_it(tmp_path):
    Reader.prompts.clear()
    good, poor = (searched("search[x]", "open[y]", "answer[z]") for _ in range(2))
    good.turns[1].observation = "the tower stands in Paris <|im_end|>"
    # "in paris" against "paris": precision 1/2, recall 1
    assert of_evidence(tmp_path, good, poor, weight=0.6) == [pytest.approx(0.6 * 2 / 3), 0.0]
    prompt = Reader.prompts[0]
    assert "Where is the tower?" in prompt and '"seen 2"' in prompt and "seen 0" not in prompt and "<|im_end|>" not in prompt
    again = searched("search[x]", "open[y]", "answer[z]")
    again.turns[1].observation = good.turns[1].observation
    assert of_evidence(tmp_path, again, weight=0.6) == [pytest.approx(0.4)] and len(Reader.prompts) == 2  # kept by content


def test_what_the_policy_writes_is_no_evidence():
    made = searched("search[x]", "open[The tower stands in Rome]", "search[z]", "answer[z]")
    made.turns[1].valid = False
    made.turns[2].observation = "No document has the title 'The tower stands in Rome'."
    made.turns[3].observation = "Doc 1 The tower  stands in\nParis."
    assert passages(made, "shown") == ["seen 1", "Doc 1 The tower  stands in\nParis."]
    made.turns[3].text = "<evidence>tower stands in Paris.\nThe tower stands in Rome\nseen 1</evidence> answer[z]"
    assert passages(made, "quoted") == ["tower stands in Paris.", "seen 1"]


def test_no_reply_takes_long_to_be_read_for_evidence():
    made = searched("search[x]", "answer[z]")
    made.turns[-1].text = "<evidence>" * 300_000 + "seen 1</evidence>"
    started = time.perf_counter()
    assert passages(made, "quoted") == ["seen 1"]
    made.turns[-1].text = "<evidence>" * 300_000
    assert passages(made, "quoted") == []
    assert time.perf_counter() - started < 5


def test_a_frozen_model_that_fails_is_an_infrastructure_error(tmp_path):
    made = searched("search[x]", "answer[z]")
    made.turns[1].observation = "broken"
    of_evidence(tmp_path, made)
    assert made.fault and made.success is None and "reward 'evidence': no answer" in made.error
    with pytest.raises(BadConfig, match="only a training run has"):
        stages = resolve_rewards(["evidence"], {"engine": f"{__name__}:Reader"})
        asyncio.run(pay([searched("search[x]", "answer[z]")], stages, step=0, run=None))


def repaired(similarity, *, success=False, reason="failure", patch="--- a/x\n+++ b/x\n"):
    made = tried(success, "submit[]")
    made.reason, made.metrics = reason, {} if similarity is None else {"similarity": similarity}
    made.final_observation = f"Said.\n<patch>\n{patch}</patch>"
    return made


def test_patch_similarity_by_hand():
    made = [
        repaired(0.75), repaired(1.0, success=True, reason="success"), repaired(0.0, patch=""),
        repaired(0.0, reason="horizon"), repaired(0.0, patch="left out: more than 60000 characters\n"),
    ]  # fmt: skip
    found = [part["patch_similarity"] for part in paid("patch_similarity", *made, weight=0.8)]
    assert found == pytest.approx([0.6, 0.8, -0.8, -0.8, -0.8])
    assert max([*found[2:], found[0]]) < 1.0  # below what a success has already
    with pytest.raises(BadConfig, match="has no measure 'similarity'"):
        paid("patch_similarity", repaired(None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": ("patch_similarity",)}, "measure 'similarity', which rlvr/GuessNumber-v0 does not have"),
        ({"reward": ("evidence",), "reward_options": {"engine": f"{__name__}:Reader"}}, "rlvr/GuessNumber-v0 has none"),
        ({"reward": ("evidence",), "reward_options": {"engine": "hf:x"}}, "engine of reward 'evidence' is 'hf:x'"),
        ({"reward": ("evidence",), "reward_options": {"engine": f"{__name__}:Reader", "weight": 1.0}}, "weight"),
    ],
)
def test_rewards_that_do_not_fit_an_environment_are_refused_before_anything_is_loaded(tmp_path, changes, message):
    with pytest.raises(BadConfig, match=message):
        check_run(TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), **changes))
