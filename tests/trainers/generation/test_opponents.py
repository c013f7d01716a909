"""Opponents from a pool: ratings by hand, who plays and who is trained, the pool's size, and runs that are cut off."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from small_runs import curve, episodes, goes_on_to_the_last_digit, policy, small

import agentgym
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import Episode, Turn, groups, read_episodes
from agentgym.errors import BadConfig, BadData, UnknownName
from agentgym.rollout.collect import finished
from agentgym.trainers import resume, train
from agentgym.trainers.config.train_config import STATE, TrainConfig, newest_checkpoint
from agentgym.trainers.generation.opponents import Member, Opponents, _check, expected, score
from agentgym.trainers.run.metrics import success_by_part
from agentgym.trainers.run.preflight import model_folder

KUHN = {"env": "rlvr/KuhnPoker-v0", "env_options": {"opponent": "self", "hands": 1}, "horizon": ()}


def game(role, winner, opponent="step-2", fault=False):
    episode = Episode("g", "t", "g1", 0, turns=[Turn("", role="A"), Turn("", role="B"), Turn("", role="A")])
    episode.labels = {"trained_role": role, "opponent": opponent}
    episode.role_success = {"A": winner == "A", "B": winner == "B"}
    episode.success, episode.reason = (None, "crash") if fault else (winner == role, "")
    return episode


def pool(tmp_path, saves=None, **options):
    """Return a pool without a learner: `saves` gets the folders that are written."""

    def save(folder):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (saves if saves is not None else []).append(folder)

    env = agentgym.make("rlvr/KuhnPoker-v0")
    run = SimpleNamespace(
        folder=tmp_path, config=SimpleNamespace(checkpoint_every=2, seed=0), learner=SimpleNamespace(save=save),
        resource=lambda name, make: make(), rollouts=SimpleNamespace(env=lambda _: env),
    )  # fmt: skip
    return Opponents(run, **options)


def test_expected_scores_and_results_by_hand():
    assert expected(1000, 1000) == 0.5
    assert expected(1000, 1400) == pytest.approx(1 / 11)  # ten to one at 400 points
    assert [score(game("A", winner), "A") for winner in ("A", "B", "")] == [1, 0, 0.5]
    assert score(game("B", "B"), "B") == 1


def test_ratings_move_by_elos_rule(tmp_path):
    own = pool(tmp_path, every=0, k=20.0)
    own.members = {"step-2": Member(1000.0)}
    row = own.update([game("A", "A"), game("B", "A"), game("A", "A", fault=True), game("A", "A", "")], 0)
    # a win at even ratings: +10. Then a loss at 1010 against 990: E = 1 / (1 + 10^(-20 / 400)) = 0.52875
    assert own.rating == pytest.approx(1010 - 20 * 0.528749, abs=1e-4)
    assert own.members["step-2"].rating == pytest.approx(2000 - own.rating) and own.members["step-2"].games == 2
    assert (row["opponent_games"], row["opponent_score"], row["policy_rating"]) == (2, 0.5, own.rating)


@pytest.mark.parametrize(("choose", "ratio"), [("uniform", 1.0), ("hard", (10 / 11) ** 2 / 0.25), ("even", 10 / 121 / 0.25)])
def test_opponents_are_drawn_by_rating(tmp_path, choose, ratio):
    own = pool(tmp_path, choose=choose, share=1.0)
    own.members = {"step-1": Member(1000.0), "step-2": Member(1400.0)}
    chosen = own._chosen([(f"g{n}", "") for n in range(3000)], 0)
    names = [name for name, _ in chosen.values()]
    assert names.count("step-2") / names.count("step-1") == pytest.approx(ratio, rel=0.15)
    roles = [role for _, role in chosen.values()]
    assert len(chosen) == 3000 and roles.count("A") == roles.count("B") == 1500
    assert pool(tmp_path, share=0.25)._chosen([("g", "")], 0) == {}, "an empty pool has no opponents"


def test_the_pool_has_a_largest_size_and_keeps_what_a_checkpoint_needs(tmp_path):
    saves, own = [], pool(tmp_path, every=1, keep=2)
    own.run.learner.save = lambda folder: (folder.mkdir(parents=True), saves.append(folder.name))
    on_disk = []
    for step in range(6):
        own.update([], step)
        on_disk.append(sorted(path.name for path in (tmp_path / "opponents").iterdir()))
    assert sorted(own.members) == ["step-5", "step-6"]
    assert saves == [f".step-{n}" for n in range(1, 7)], "written beside its place, then renamed"
    # step-1 left after step 2 (counted from 0), and a checkpoint of every second step may name it until step 4
    assert on_disk[3] == ["step-1", "step-2", "step-3", "step-4"]
    assert on_disk[4] == ["step-2", "step-3", "step-4", "step-5"]
    again = pool(tmp_path, every=1, keep=2)
    again.load_state_dict(own.state_dict())
    assert again.state_dict() == own.state_dict()


def test_only_the_trained_role_is_a_group_and_counts():
    won, lost = game("A", "A"), game("B", "A")
    assert [(group.role, len(group[0].turns), group[0].success) for group in groups([won])] == [("A", 2, True)]
    assert [(group.role, len(group[0].turns), group[0].success) for group in groups([lost])] == [("B", 1, False)]
    shares = success_by_part("success_train", [won, lost])
    assert {name: (share.total, share.number) for name, share in shares.items()} == {
        "success_train/A": (1, 1), "success_train/B": (0, 1),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["../../elsewhere", "step-1/..", "/etc", "frozen/other"])
def test_a_checkpoint_cannot_name_a_folder(tmp_path, name):
    with pytest.raises((BadData, BadConfig), match=r"expected step-N|give the folder that holds it"):
        pool(tmp_path).load_state_dict({"rating": 1.0, "members": {name: [1.0, 0]}, "left": {}})
    with pytest.raises((BadData, BadConfig)):
        pool(tmp_path).load_state_dict({"rating": 1.0, "members": {}, "left": {name: 0}})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    start = policy(folder / "policy", "rlvr/KuhnPoker-v0")
    taught = small(folder / "taught", start, **KUHN, sft_episodes=256, sft_batch=8, steps=0)
    train(taught)
    return taught.out


def against(folder, model, options=None, **changes):
    pooled = {"every": 1, "keep": 2, "share": 0.7, **(options or {})}
    settings = {"generation": "opponents", "generation_options": pooled, "credit": "mars", "credit_options": {}, "lr": 1e-2}
    return small(folder, model, **{**KUHN, **settings, "steps": 4, "tasks_per_step": 6, **changes})


def test_frozen_policies_play_and_are_never_trained(tmp_path, model):
    config = against(tmp_path / "run", model)
    train(config)
    played = [e for e in read_episodes(tmp_path / "run/episodes.jsonl") if e.group_id.split("/")[0] in ("2", "3", "4")]
    met = [e for e in played if "opponent" in e.labels]
    assert {e.labels["opponent"] for e in met} >= {"step-2", "step-3"} and len(met) < len(played)
    assert {e.labels["trained_role"] for e in met} == {"A", "B"}
    last = [e for e in met if e.labels["opponent"] == "step-3"]
    engine = HFEngine(tmp_path / "run/opponents/step-3")
    for episode in last:
        for turn in episode.turns:
            scores = finished(engine.score([*turn.prompt_ids, *turn.output_ids]))[-len(turn.output_ids) :]
            gap = max(abs(a - b) for a, b in zip(scores, turn.logprobs, strict=True))
            # the policy of step 4 is the one of step-3, so only what step-3 played is compared
            assert gap < 1e-4 or turn.role == episode.labels["trained_role"]
    rows = [row for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    assert [row["opponents"] for row in rows] == [1, 2, 2, 2] and rows[0]["opponent_games"] == 0
    assert all(row["opponent_games"] > 0 for row in rows[1:])
    assert all(row["mismatch_mean"] < 1e-4 for row in rows), "no token of another policy is trained"


def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, model):
    goes_on_to_the_last_digit(tmp_path, lambda folder: against(folder, model))


def test_one_role_can_be_trained_against_frozen_policies(tmp_path, model):
    shutil.copytree(model_folder(model), tmp_path / "frozen" / "first")
    options = {"every": 0, "share": 1.0, "role": "B", "folder": str(tmp_path / "frozen")}
    config = against(tmp_path / "run", model, options, steps=2)
    train(config)
    played = episodes(tmp_path / "run")
    assert {(e["labels"]["opponent"], e["labels"]["trained_role"]) for e in played} == {("frozen/first", "B")}
    assert not (tmp_path / "run/opponents").exists()
    with pytest.raises(BadConfig, match=r"sets --generation\.folder, which says where"):
        resume(tmp_path / "run", steps=3)
    shutil.rmtree(tmp_path / "frozen/first")
    with pytest.raises(BadConfig, match="expected one with a model folder per opponent"):
        resume(tmp_path / "run", steps=3, settings={"generation.folder": str(tmp_path / "frozen")})


def test_a_missing_or_damaged_checkpoint_is_named(tmp_path, model):
    config = against(tmp_path / "run", model, {"share": 1.0}, steps=2)
    train(config)
    names = torch.load(newest_checkpoint(config.out) / STATE, weights_only=True)["stages"][0]["generation"]["members"]
    assert sorted(names) == ["step-1", "step-2"]
    for name in names:
        (tmp_path / "run/opponents" / name / "model.safetensors").write_bytes(b"\x80damaged")
    with pytest.raises(BadConfig, match=r"step-[12] cannot be loaded"):
        resume(tmp_path / "run", steps=3)
    shutil.rmtree(tmp_path / "run/opponents")
    with pytest.raises(BadConfig, match="put the model folder back"):
        resume(tmp_path / "run", steps=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "rlvr/GuessNumber-v0", "env_options": {}}, "has one role"),
        ({"env_options": {"opponent": "equilibrium"}}, "only one role moved"),
        ({"async_level": 1}, "async_level is 1"),
        ({"processes": 2}, "processes is 2; it works with 1"),
    ],
)
def test_what_has_no_opponents_is_refused(tmp_path, model, changes, message):
    with pytest.raises(BadConfig, match=message):
        train(against(tmp_path / "run", model, **changes))


def test_a_learner_on_a_server_is_refused():
    server = {"learner": "tinker:http://127.0.0.1:1", "model": "me/model", "lora_rank": 16}
    config = TrainConfig(env="rlvr/KuhnPoker-v0", generation="opponents", **server)
    with pytest.raises(BadConfig, match="its weights on a server"):
        _check(config)


def test_bad_options_are_refused(tmp_path, model):
    for options, message in (({"role": "C"}, "role"), ({"folder": str(tmp_path)}, "one with a model folder per opponent")):
        with pytest.raises((BadConfig, UnknownName), match=message):
            train(against(tmp_path / "run", model, options))
