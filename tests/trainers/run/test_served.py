"""A server as the engine of a run: it must serve the very model, and no update may be asked of it."""

import json

import pytest

from agentgym.engines.hf.engine import HFEngine
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.model.policy import PolicySize, init_policy

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import loopback

from agentgym.gateway import App, Gateway

URL = "openai:http://127.0.0.1:1/v1"


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    size, folder = PolicySize(width=64, layers=2, heads=2, vocabulary=400), tmp_path_factory.mktemp("policies")
    return [init_policy("rlvr/GuessNumber-v0", folder / str(n), size=size, episodes=50, seed=n) for n in range(2)]


def measured(url, model, out, **changes):
    return TrainConfig(
        env="rlvr/GuessNumber-v0", engine=f"openai:{url}/v1", model=str(model), out=str(out), steps=0, test_tasks=4,
        turn_tokens=6, threads=1, **changes,
    )  # fmt: skip


def test_a_run_takes_only_a_server_that_scores_as_its_model_does(policies, tmp_path):
    engine = HFEngine(policies[0], slots=4)
    with loopback.serving(App(Gateway(engine, "tiny"))) as url:
        with pytest.raises(BadConfig, match=r"differ from the model's by .* at most 0\.02 is accepted .*of other weights"):
            train(measured(url, policies[1], tmp_path / "other"))
        assert not (tmp_path / "other").exists()  # free for the corrected command
        decoded = engine.decoded
        summary = train(measured(url, policies[0], tmp_path / "same"))
        assert engine.decoded > decoded
    ran = [json.loads(line) for line in (tmp_path / "same" / "episodes.jsonl").read_text().splitlines()]
    assert summary["episodes"] == 0 and len(ran) == 2 * 4  # before and after: nothing warms it up
    assert not any(episode["error"] for episode in ran)


class Unscaled(HFEngine):
    """Reports log-probabilities at temperature 1 whatever it samples at, as some servers do."""

    async def complete(self, request):
        got = await super().complete(request)
        got.logprobs = (await self.score([*request.prompt_ids, *got.ids], 1.0))[len(request.prompt_ids) - 1 :]
        return got


def test_a_server_of_unscaled_numbers_is_refused(policies, tmp_path):
    with (
        loopback.serving(App(Gateway(Unscaled(policies[0]), "tiny"))) as url,
        pytest.raises(BadConfig, match="processed_logprobs"),
    ):
        train(measured(url, policies[0], tmp_path / "run"))


@pytest.mark.parametrize("changes", [{"steps": 1}, {"steps": 0, "sft_episodes": 8}])
def test_updates_with_a_server_are_refused_in_the_configuration(changes):
    with pytest.raises(BadConfig, match=r"cannot be sent to a server of that kind.*hf, vllm or vllm:URL; or set steps = 0"):
        TrainConfig(engine=URL, model="folder", **changes)


def test_other_names_of_a_server_are_refused():
    with pytest.raises(BadConfig, match="needs a model folder"):
        TrainConfig(engine=URL, steps=0)
    for wrong in ("openai", "openai:", "opnai:http://127.0.0.1:1/v1"):
        with pytest.raises(UnknownName, match="openai:URL"):
            TrainConfig(engine=wrong, model="folder", steps=0)
