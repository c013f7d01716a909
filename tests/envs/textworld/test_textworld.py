"""TextWorld: games that are made the same everywhere, played only by what is possible."""

import os
import random

import pytest

import agentgym
from agentgym.errors import BadConfig, Fault, MissingExtra, UnknownName

pytest.importorskip("textworld", reason="needs the extra `textworld`")

from agentgym.envs.textworld import env as play
from agentgym.envs.textworld import games


def environment(**options):
    return agentgym.make("rlvr/TextWorld-v0", **options)


def test_commands_are_understood_in_short():
    words = {
        "N": "go north",
        "get the red key": "take red key",
        "x lamp": "examine lamp",
        "go  East": "go east",
        "i": "inventory",
    }
    assert {command: play.understood(command) for command in words} == words
    assert play.found("take the Song of the Day", ["take Song of the Day"]) == "take Song of the Day"
    assert play.found("take lamp", ["examine lamp", "take lamp from desk"]) == "take lamp from desk"
    assert play.found("take", ["take lamp from desk"]) is None
    assert play.found("cook the chop with bbq", ["cook chop with BBQ"]) == "cook chop with BBQ"
    assert play.found("cook chop with bb", ["cook chop with BBQ"]) is None


def test_texts_lose_their_frame_and_their_count_of_turns():
    text = "You win.\n\n\n  *** The End ***\n\nYou scored 1 out of a possible 1, in 6 turns.\n\nUNDO?\n>   -= Pantry =-0/5"
    assert play._plain(text) == "You win.\n\nThe End."
    assert play._plain("A room.\n\n>    -= Pantry =-0/5") == "A room."


def test_a_cooking_game_is_won_by_the_oracle_after_wandering_and_remembered_by_a_snapshot():
    env = environment(challenge="cooking", difficulty=1)
    text, info = env.reset(seed=0, options={"task": 0, "horizon": 200})
    assert text.startswith("You are hungry!") and "-=" in text and "$$$" not in text
    rng = random.Random(1)
    for _ in range(6):
        env.step(rng.choice([c for c in info["admissible"] if c.startswith(("go", "open", "look", "inventory", "examine"))]))
        info = env.info()
    state, key = env.snapshot(), env.state_key()
    while env._running:
        _, reward, *_, info = env.step(next(env.oracle()))
    assert reward == 1 and info["metrics"]["score"] == 1 and env.success
    other = environment(challenge="cooking", difficulty=1)
    assert other.restore(state).state_key() == key != env.state_key()
    for one in (env, other):
        one.close()


def test_what_is_possible_is_named_with_the_likeliest_first():
    possible = ["close oven", *(f"drop thing {n}" for n in range(40)), "open oven", "take red lamp"]
    named = play.closest("take the red book", possible)
    assert named[0] == "take red lamp" and named[-1] == "…" and len(named) == play.SHOWN + 1
    assert play.closest("fly", possible[:2]) == possible[:2]


def test_nothing_but_possible_commands_reaches_the_game():
    env = environment(challenge="coin_collector")
    env.reset(seed=0, options={"task": 0})
    key = env.state_key()
    for command in ("save", "restart", "tw-print state", "quit", "take coin; quit", "undo"):
        _, _, over, _, info = env.step(command)
        assert not info["valid"] and "Possible commands: " in info["error"] and not over
    assert env.log == [] and env.state_key() == key
    env.close()


def test_oldest_games_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(games, "KEPT", 3)
    for number in range(4):
        for suffix in (".z8", ".json"):
            (tmp_path / f"{number}{suffix}").write_text("")
            os.utime(tmp_path / f"{number}{suffix}", (number, number))
    (tmp_path / "gone.z8").symlink_to("nowhere")  # as if another process had deleted it meanwhile
    games._forget_oldest(tmp_path)
    (tmp_path / "gone.z8").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.json", "2.z8", "3.json", "3.z8"]


@pytest.mark.long
@pytest.mark.parametrize("gone", [(".json",), (".z8",), (".json", ".z8")])
@pytest.mark.parametrize("known", [False, True])  # whether this process has read the game before
def test_games_that_another_process_forgets_are_compiled_again(gone, known, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    first, env = environment(challenge="coin_collector"), environment(challenge="coin_collector")
    text, _ = first.reset(seed=0, options={"task": 0})
    files, utime = sorted((tmp_path / "textworld").iterdir()), games.os.utime
    if not known:
        games.loaded.cache_clear()

    def forgotten(path):  # after it was found there, before it is read
        utime(path)
        for suffix in gone:
            path.with_suffix(suffix).unlink()
        monkeypatch.setattr(games.os, "utime", utime)

    monkeypatch.setattr(games.os, "utime", forgotten)
    assert env.reset(seed=0, options={"task": 0})[0] == text
    assert sorted((tmp_path / "textworld").iterdir()) == files and games.os.utime is utime
    for one in (first, env):
        one.close()


def test_a_game_that_cannot_be_read_is_compiled_again_and_then_a_fault(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    env = environment(challenge="coin_collector")
    task = env.tasks(1)[0]
    place = games.folder() / f"{task.data['content']}.json"
    place.parent.mkdir()
    place.write_text("{")
    place.with_suffix(".z8").write_text("")
    env.reset(seed=0, options={"task": task})
    monkeypatch.setattr(games, "compile_into", lambda *_: place.unlink(missing_ok=True))
    place.write_text("{")
    games.loaded.cache_clear()
    other = environment(challenge="coin_collector")
    with pytest.raises(Fault, match="just compiled"):
        other.reset(seed=0, options={"task": task})
    for one in (env, other):
        one.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    place = tmp_path / "a file"
    place.write_text("")
    monkeypatch.setenv("AGENTGYM_CACHE", str(place))
    env = environment(challenge="coin_collector")
    with pytest.raises(BadConfig, match=r"a file.* name another folder in AGENTGYM_CACHE"):
        env.reset(seed=0)
    env.close()


def test_games_in_use_are_not_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    env = environment(challenge="coin_collector")
    tasks = env.tasks(2)
    for task in tasks:
        env.reset(seed=0, options={"task": task})
    places = [games.folder() / f"{task.data['content']}.z8" for task in tasks]
    for seconds, place in enumerate(places):
        os.utime(place, (seconds, seconds))
    env.reset(seed=0, options={"task": tasks[0]})  # compiled first, used last
    monkeypatch.setattr(games, "KEPT", 1)
    games._forget_oldest(games.folder())
    assert [place.is_file() for place in places] == [True, False]
    env.close()


def test_options_are_checked(monkeypatch):
    with pytest.raises(UnknownName, match="cooking"):
        environment(challenge="cookin")
    with pytest.raises(BadConfig, match="empty"):
        environment(challenge=())
    monkeypatch.setattr(games.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="textworld package: "):
        environment()


@pytest.mark.slow
@pytest.mark.parametrize("challenge", ["coin_collector", "treasure_hunter", "cooking", "simple"])
@pytest.mark.parametrize("difficulty", [0, 2])
def test_the_oracle_solves_two_hundred_tasks(challenge, difficulty):
    env = environment(challenge=challenge, difficulty=difficulty, split="test")
    for task in env.tasks(25):
        env.reset(seed=0, options={"task": task})
        while env._running:
            env.step(next(env.oracle()))
        assert env.success, task.id
    env.close()


def test_turns_are_counted_as_the_package_counts_steps() -> None:
    """The `Limit` of textworld 1.7.0 over the same game: commands that mean nothing count in both."""
    limit = __import__("textworld.envs.wrappers.limit", fromlist=["Limit"]).Limit
    env, other = environment(challenge="coin_collector", horizon=5), environment(challenge="coin_collector")
    for one in (env, other):
        one.reset(seed=0, options={"task": 0})
    package = limit(other._game, max_episode_steps=5)
    package.reset()
    for turn in range(1, 6):
        *_, truncated, info = env.step("fly to the moon" if turn % 2 else "look")
        _, _, done = package.step("fly to the moon" if turn % 2 else "look")
        assert truncated == done == (turn == 5), turn
        assert info["valid"] == (turn % 2 == 0)
    assert "3 times" in type(env).unlike_published({"difficulty": 1}) and type(env).unlike_published({"horizon": 50}) == ""
    for one in (env, other):
        one.close()
