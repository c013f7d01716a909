"""The environment in a real browser: oracle and expert, deviations, wrong answers, hostile text, episodes apart,
snapshots."""

import json

import pytest

import agentgym
from agentgym.browser import chromium
from agentgym.browser.server import SITES
from agentgym.core.env import Task
from agentgym.errors import UnknownName

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs a Chromium: see `agentgym doctor`")
SAMPLE = (
    "shop-cheapest",
    "shop-order-total",
    "forum-comment",
    "wiki-fact",
    "wiki-edit",
    "tracker-assignee",
    "calendar-delete",
    "mail-file",
)
"""Short ones; a test marked slow takes many of all."""


@pytest.fixture(scope="module")
def env():
    env = agentgym.make("rlvr/Web-v0")
    yield env
    env.close()


def only(family, number=0, **wanted):
    """Return a task of one family."""
    maker = agentgym.make("rlvr/Web-v0", families=family)
    while True:
        task = maker.numbered(number)
        if all(task.data[name] == value for name, value in wanted.items()):
            return task
        number += 1


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def play(env, source):
    for turn in range(200):
        _, reward, terminated, truncated, info = env.step(next(source()))
        assert info["valid"], info["error"]
        if terminated or truncated:
            return reward, turn + 1
    raise AssertionError("no end")


@pytest.mark.long
@pytest.mark.parametrize("family", SAMPLE)
def test_oracle_solves_in_the_browser(env, family):
    env.reset(seed=0, options={"task": only(family)})
    assert play(env, env.oracle)[0] == 1.0


def test_oracle_mends_what_was_done_wrong(env):
    env.reset(seed=0, options={"task": only("forum-comment", possible=True)})
    env.step("goto[http://shop.test/product/1]")
    env.step(f"click[{env.elements('button', 'Add to wish list')[0].id}]")
    env.step("goto[http://forum.test/]")
    env.step(f"click[{env.elements('button', 'Log out')[0].id}]")
    assert play(env, env.oracle)[0] == 1.0


def test_done_with_something_else_changed_fails(env):
    task = only("forum-comment", possible=True)
    env.reset(seed=0, options={"task": task})
    for action in env.oracle():
        if action.startswith("answer"):
            break
        env.step(action)
    env.step("goto[http://shop.test/product/1]")
    env.step(f"click[{env.elements('button', 'Add to wish list')[0].id}]")
    assert env.step("answer[done]")[1:3] == (0.0, True)
    env.reset(seed=0, options={"task": task})
    assert env.step("answer[done]")[1] == 0.0
    env.reset(seed=0, options={"task": task})
    assert env.step("answer[impossible]")[1] == 0.0


def test_what_cannot_be_done_must_be_left_and_said(env):
    task = only("forum-comment", possible=False)
    for answer, reward in (("impossible", 1.0), (" Impossible. ", 1.0), ("done", 0.0), ("", 0.0)):
        env.reset(seed=0, options={"task": task})
        assert env.step(f"answer[{answer}]")[1] == reward
    env.reset(seed=0, options={"task": task})
    env.step("goto[http://forum.test/]")
    env.step(f"click[{env.elements('button', 'Subscribe')[0].id}]")
    assert env.step("answer[impossible]")[1] == 0.0, "something was changed"


def test_script_that_an_agent_stores_is_text(env):
    env.reset(seed=0, options={"task": only("forum-profile")})
    hostile = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    env.step("goto[http://forum.test/settings]")
    for label in ("Place", "About"):
        env.step(call("fill", id=env.elements("textbox", label)[0].id, text=hostile))
    observation = env.step(f"click[{env.elements('button', 'Save settings')[0].id}]")[0]
    assert "Your profile is saved." in observation
    observation = env.step("goto[http://forum.test/me]")[0]
    assert observation.count("document.title='owned'</script>") == 2 and "Title: owned" not in observation
    assert not env.peek("document.querySelectorAll('script, img').length")


def test_two_episodes_do_not_see_each_other(env):
    task = only("forum-vote")
    other = agentgym.make("rlvr/Web-v0")
    try:
        for environment in (env, other):
            environment.reset(seed=0, options={"task": task})
            environment.step("goto[http://forum.test/t/1]")
        env.step(f"click[{env.elements('button', 'Vote for this topic')[0].id}]")
        env.peek("(document.cookie = 'who=one', localStorage.setItem('who', 'one'))")
        assert "Take back vote" not in other.step("goto[http://forum.test/t/1]")[0]
        assert other.peek("[document.cookie, localStorage.getItem('who')]") == ["", None]
        assert "Take back vote" in env.step("goto[http://forum.test/t/1]")[0]
        assert env.state_key() != other.state_key()
    finally:
        other.close()


def test_a_snapshot_brings_the_sites_back(env):
    task = only("tracker-close", possible=True)
    env.reset(seed=0, options={"task": task})
    for _ in range(7):
        env.step(next(env.oracle()))
    state, key, changed = env.snapshot(), env.state_key(), env.digest()
    assert changed != env.site.fresh().digest()
    assert play(env, env.oracle)[0] == 1.0
    env.restore(state)
    assert (env.state_key(), env.digest()) == (key, changed) and play(env, env.oracle)[0] == 1.0


def test_state_key_is_that_of_pages_and_sites(env):
    env.reset(seed=0, options={"task": only("shop-cart")})
    env.step("goto[http://shop.test/product/1]")
    first = env.state_key()
    env.step("goto[http://shop.test/product/1]")
    env.step(f"click[{env.elements('button', 'Add to wish list')[0].id}]")
    env.step("goto[http://shop.test/product/1]")
    assert env.state_key() != first


def test_first_observation_says_what_there_is(env):
    observation, info = env.reset(seed=0, options={"task": only("wiki-fact")})
    assert all(f"http://{name}.test/" in observation for name in ("shop", "forum", "wiki", "tracker", "calendar", "mail"))
    assert "You are logged in everywhere as" in observation and info["admissible"] is None
    assert not env.step("goto[http://example.org/]")[4]["valid"]


def _empty(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]


def test_other_environments_of_the_process_are_out_of_reach(env, monkeypatch):
    monkeypatch.setitem(SITES, "other.test", _empty)
    env.reset(seed=0, options={"task": only("wiki-fact")})
    observation, *_, info = env.step("goto[http://other.test/]")
    assert "leads nowhere" in info["error"] and "URL: http://wiki.test/" in observation


def test_families_and_sites_are_chosen_by_name():
    maker = agentgym.make("rlvr/Web-v0", families="wiki, shop-cart")
    chosen = {maker.numbered(number).data["family"] for number in range(60)}
    assert "shop-cart" in chosen and all(name == "shop-cart" or name.startswith("wiki-") for name in chosen)
    with pytest.raises(UnknownName, match="Did you mean 'shop-cart'"):
        agentgym.make("rlvr/Web-v0", families="shop-card")


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", [0, 2])
def test_oracle_solves_fifty_tasks(difficulty):
    env = agentgym.make("rlvr/Web-v0", difficulty=difficulty, horizon=200)
    for seed, task in enumerate(env.tasks(50)):
        env.reset(seed=seed, options={"task": task})
        assert play(env, env.oracle)[0] == 1.0, task
    env.close()


def test_harder_tasks_have_more_turns():
    assert [agentgym.make("rlvr/Web-v0").limit_of(Task("", {}, difficulty=difficulty)) for difficulty in (0, 3)] == [50, 125]
    assert agentgym.make("rlvr/Web-v0", horizon=9).limit_of(Task("", {}, difficulty=3)) == 9
