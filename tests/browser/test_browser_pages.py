"""The browser layer, on pages that mean no good; a second episode in the same browser goes on undisturbed."""

import asyncio
import os
import signal
import time

import pytest
from hostile_site import Hostile

from agentgym.browser.browser import Kind, browser
from agentgym.browser.chromium import chromium
from agentgym.browser.loop import loop
from agentgym.errors import Fault

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs a Chromium: apt install chromium")


@pytest.fixture(scope="module")
def env():
    made = Hostile()
    yield made
    made.close()


@pytest.fixture(scope="module")
def calm():
    made = Hostile()
    made.reset(seed=99, options={"horizon": 1000})
    yield made
    made.close()


def press(env, name):
    return env.step(f"click[{env.elements('button', name)[0].id}]")


def body(observation):
    return observation.split("\n\n", 1)[1]


def test_what_is_seen(env):
    env.reset(seed=1)
    observation = env.step("goto[/form]")[0]
    assert body(observation) == (
        'form\n  [1] textbox "Name"\n  [2] textbox "Secret"\n  [3] combobox "Colour" value="Red" options=["Red","Blue"]\n'
        '  [4] checkbox "Gift"\n  [5] textbox "Note" multiline\n  [6] button "Send"\n[7] button "in the shadow"\n'
        '[8] iframe\n  [9] button "inner"'
    )
    assert "hidden text" not in observation


def test_forms_and_frames(env):
    env.reset(seed=1)
    env.step("goto[/form]")
    env.step('{"name": "fill", "arguments": {"id": 1, "text": "Ann"}}')
    env.step('{"name": "fill", "arguments": {"id": 2, "text": "secret"}}')
    env.step('{"name": "select", "arguments": {"id": 3, "option": "blue"}}')
    env.step("click[4]")
    observation = env.step("click[9]")[0]
    assert '[1] textbox "Name" value="Ann"' in observation and '[2] textbox "Secret" value="••••••"' in observation
    assert 'value="Blue"' in observation and '[4] checkbox "Gift" checked' in observation
    assert '[9] button "inner done" focused' in observation and 'Focus: [9] button "inner done"' in observation
    assert env.step("click[6]")[0].startswith("URL: http://hostile.test/done?n=Ann&s=secret&c=Blue&g=on\n")
    assert env.step("back[]")[0].startswith("URL: http://hostile.test/form")
    assert env.site[:3] == ["/", "/form", "/done"] and set(env.site[3:]) <= {"/form"}


@pytest.mark.parametrize(
    "action, error",
    [
        ("click[99]", "there is no element 99 on this page"),
        ('{"name": "fill", "arguments": {"id": 3, "text": "x"}}', "is a list: use select"),
        ('{"name": "fill", "arguments": {"id": 6, "text": "x"}}', "takes no text"),
        ('{"name": "select", "arguments": {"id": 3, "option": "Green"}}', 'options: ["Red","Blue"]'),
        ("press[Foo]", 'Unknown key: "Foo"'),
        ("scroll[sideways]", "expected up, down, left or right"),
        ("tab[7]", "there is no tab 7"),
        ("goto[chrome://crash]", "http://hostile.test/"),  # among the sites of other tests
        ("goto[file:///etc/passwd]", "leads nowhere"),
        ("goto[http://127.0.0.1:22/]", "leads nowhere"),
        ("goto[http://[]", "leads nowhere"),
        ("goto[http://[hostile.test]/]", "leads nowhere"),
        ("goto[http://hostile.test\N{ACCOUNT OF}/]", "leads nowhere"),
    ],
)
def test_errors_say_what_is_wrong_and_change_nothing(env, action, error):
    if env.limit != 999:
        env.reset(seed=1, options={"horizon": 999})
        env.step("goto[/form]")
    key = env.state_key()
    observation, _, _, _, info = env.step(action)
    assert not info["valid"] and error in info["error"] and f"Error: {info['error']}" in observation
    assert env.state_key() == key


def test_the_page_has_a_clock_of_its_own(env):
    titles = []
    for _ in range(2):
        env.reset(seed=1)
        titles.append(press(env, "later")[0].split("\n")[1])
    assert titles == ["Title: later 1772442001500"] * 2  # 2026-03-02 09:00 UTC, the reset's second, and half a second


def test_an_action_returns_when_the_page_has_settled(env):
    env.reset(seed=1)
    assert body(env.step("goto[/ajax]")[0]) == 'text "loaded"'
    assert env.step("goto[/redirect]")[0].startswith("URL: http://hostile.test/done")


def test_dialogs_are_answered_and_told(env, calm):
    env.reset(seed=1)
    observation = press(env, "dialogs")[0]
    assert "Title: sure Ann" in observation and "dialog (alert): 'Careful'" in observation


def test_nothing_leaves(env):
    env.reset(seed=1)
    assert "Title: no way out" in press(env, "out")[0]
    assert "Title: no socket" in press(env, "socket")[0]
    assert "downloads are refused" in press(env, "download")[0]


def test_nothing_of_an_episode_reaches_another(env, calm):
    env.reset(seed=1)
    press(env, "store")
    assert "Title: seen:xa=xx" in press(env, "seen")[0]
    assert "Title: seen:\n" in press(calm, "seen")[0]
    env.reset(seed=1)
    assert "Title: seen:\n" in press(env, "seen")[0]


@pytest.mark.parametrize("name", ["loop", "alerts"])
def test_a_page_that_never_rests_ends_its_own_episode(name, calm):
    env = Hostile()
    env.reset(seed=1)
    env.seconds = 2.0
    observation, reward, terminated, truncated, info = press(env, name)
    assert (observation, reward, terminated, truncated, info["reason"]) == ("", 0.0, False, True, "timeout")
    assert press(calm, "later")[3] is False


@pytest.mark.slow
@pytest.mark.parametrize("name", ["popups", "flood", "console"])
def test_floods_stay_in_their_episode(name, env, calm):
    env.reset(seed=1)
    _, _, _, truncated, info = press(env, name)
    assert (info["reason"] == "timeout") if truncated else len(env._open_episodes[0].session.tabs) <= 8
    assert press(calm, "later")[3] is False


def test_a_crash_ends_its_own_episode(env, calm):
    env.reset(seed=1)

    async def crash():
        task = asyncio.ensure_future(env._open_episodes[0].session.tab.cdp.send("Page.crash"))
        await asyncio.wait({task}, timeout=1)
        task.add_done_callback(lambda done: done.exception())

    loop().run(crash(), 10)
    assert env.step("scroll[down]")[4]["reason"] == "crash"
    assert press(calm, "later")[3] is False


def test_long_pages_are_cut_where_the_window_is(env):
    env.reset(seed=1)
    env.max_chars = 3000
    try:
        first, second = env.step("goto[/long]")[0], env.step("scroll[down]")[0]
    finally:
        del env.max_chars
    assert len(first) <= 3000 and "lines below are not shown" in first and "[1] button" in first
    assert len(second) <= 3000 and "lines above are not shown" in second and "[1] button" not in second


def test_snapshots_go_on_in_another_environment(env):
    env.reset(seed=1)
    press(env, "dialogs")
    state = env.snapshot()
    straight = [press(env, "later")[0], env.state_key()]
    with_other = Hostile().restore(state)
    assert [press(with_other, "later")[0], with_other.state_key()] == straight
    with_other.close()


def test_screenshots_are_in_info_on_request():
    env = Hostile(screenshots=True)
    _, info = env.reset(seed=1)
    assert info["screenshot"].startswith(b"\x89PNG") and env.step("scroll[down]")[4]["screenshot"].startswith(b"\x89PNG")
    env.close()


def test_a_first_page_that_cannot_be_had_is_a_fault(calm):
    class Lost(Hostile):
        def start(self, task):
            return [], "http://hostile.test:1/"

    with pytest.raises(Fault, match="ERR_UNSAFE_PORT") as caught:
        Lost().reset(seed=1)
    assert caught.value.reason == "crash" and press(calm, "later")[3] is False


@pytest.mark.parametrize("name", ["itself", "later", "opener"])
def test_a_tab_that_closes_itself_leaves_the_one_before(env, name):
    env.reset(seed=1)
    env.step("goto[/brief]")
    for _ in range(2):
        observation, _, terminated, truncated, info = press(env, name)
        assert not (terminated or truncated), info
        assert 'heading "Opener"' in observation and "Tab " not in observation


@pytest.mark.parametrize("name", ["now", "asked", "leaving"])
def test_a_tab_that_is_closed_by_its_own_button_leaves_the_one_before(env, name):
    env.reset(seed=1)
    env.step("goto[/brief]")
    for _ in range(2):
        assert "Tab 2 (current)" in press(env, "thanks")[0]
        observation, _, terminated, truncated, info = press(env, name)
        assert not (terminated or truncated), info
        assert 'heading "Opener"' in observation and "Tab " not in observation


def test_a_context_that_is_not_ready_in_time_is_closed(env, monkeypatch):
    env.reset(seed=1)
    made = browser()

    async def never(self):
        await asyncio.sleep(60)

    while any(made.making.values()):  # contexts ahead of need
        time.sleep(0.05)
    monkeypatch.setattr("agentgym.browser.browser.Tab.calm", never)
    before = list(made.handle.contexts)
    with pytest.raises(Fault, match=r"did not answer within 1 s"):
        loop().run(made._make(Kind("2026-01-01T00:00:00Z", 300, 200)), 1)
    for _ in range(200):
        if not set(made.handle.contexts) - set(before):
            break
        time.sleep(0.05)
    assert not set(made.handle.contexts) - set(before)


@pytest.mark.long
def test_a_browser_that_dies_is_started_again(env, calm):
    """The last test here: it ends all episodes in the browser."""
    env.reset(seed=1)
    made = browser()
    os.kill(_pid(made), signal.SIGKILL)
    assert env.step("scroll[down]")[4]["reason"] == "crash"
    with pytest.raises(Fault, match="does not answer"):
        calm.screenshot()
    assert calm.step("back[]")[4]["reason"] == "crash"
    env.reset(seed=1)
    assert env.step("scroll[down]")[3] is False and browser() is made
    for _ in range(300):
        if any(made.ready.values()):
            break
        time.sleep(0.05)
    os.kill(_pid(made), signal.SIGKILL)
    for seed, seconds in enumerate((0, 0, 0.005, 0.05)):  # at first nobody knows yet that it died
        time.sleep(seconds)
        env.reset(seed=seed)
        assert env.step("scroll[down]")[3] is False
        os.kill(_pid(made), signal.SIGKILL)
    env.reset(seed=9)


def _pid(made):
    async def ask():
        session = await made.handle.new_browser_cdp_session()
        found = await session.send("SystemInfo.getProcessInfo")
        await session.detach()
        return next(one["id"] for one in found["processInfo"] if one["type"] == "browser")

    return loop().run(ask(), 10)
