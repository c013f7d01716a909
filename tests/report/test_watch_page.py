"""The page of a run that goes on, in a real browser; who is let in, and who is not."""

import http.client
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ATTACKS, attack_episode, episode, metrics, write_run  # pyright: ignore
from watched_page import serving, until

from agentgym.errors import BadConfig
from agentgym.report.watch.run import FollowedRun
from agentgym.report.watch.server import PageServer, Watch

BIG = int(os.environ.get("AGENTGYM_WATCHED_EPISODES", "2000"))
"""Episodes of the large file; 100,000 in the slow test."""


def get(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers_sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host="Host" in headers_sent)
    for name, value in headers_sent.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


class Seen:
    """A page in a browser, and everything it did that it must not do."""

    def __init__(self, browser: Any, address: str, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.trouble: list[str] = []
        origin = re.match(r"http://[^/]+/", address)
        assert origin
        self.page.on("console", lambda message: self.trouble.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on(
            "request", lambda request: None if request.url.startswith(origin[0]) else self.trouble.append(request.url)
        )
        self.page.goto(address)

    def tile(self, name: str) -> str:
        return self.page.locator(".tile", has=self.page.get_by_text(name, exact=True)).locator("b").inner_text()

    def until(self, condition: str) -> None:
        until(lambda: self.page.evaluate(condition))  # the page's policy forbids what would wait inside of it


def group(step: int, results: list[bool], rng: np.random.Generator) -> str:
    lines: list[str] = []
    for attempt, result in enumerate(results):
        made = episode(step, f"{step}/train/0/{step}", result, rng)
        made.attempt = attempt
        for turn in made.turns:
            turn.extra = {"advantage": [float(x) for x in rng.normal(size=len(turn.output_ids))]}
        lines.append(made.to_json() + "\n")
    return "".join(lines)


@pytest.mark.long
def test_a_run_is_followed_from_before_it_is_there_to_its_end(browser: Any, tmp_path: Path):
    folder, rng = tmp_path / "run", np.random.default_rng(5)
    rows = [json.dumps(row) + "\n" for row in metrics(4)][20:]
    with serving(folder) as server:
        seen = Seen(browser, server.address)
        page = seen.page
        page.get_by_text("does not exist yet").wait_for()
        folder.mkdir()
        (folder / "config.toml").write_text('env = "rlvr/Household-v0"\n[sampler]\nsteps = 4\n')
        (folder / "metrics.jsonl").write_text(rows[0] + rows[1][:20])
        (folder / "episodes.jsonl").write_text(group(0, [True, False, False], rng))
        page.locator("#episodes .row").first.wait_for()
        assert seen.tile("step") == "0" and "of 4" in page.locator("#head").inner_text()
        assert page.locator("#episodes .row").count() == 1 and "1 of 3" in page.locator("#episodes .row").inner_text()
        page.locator(".detail .actions tbody tr").first.wait_for()
        assert page.locator(".detail .group tbody tr.here").count() == 1
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(rows[1][20:] + rows[2])
        with (folder / "episodes.jsonl").open("a") as file:
            file.write(group(1, [True, True], rng) + group(2, [False], rng)[:-30])
        seen.until("document.querySelectorAll('#episodes .row').length === 2")
        assert "2 of 2" in page.locator("#episodes .row").first.inner_text()
        seen.until(
            "document.querySelector('.detail .group').innerText.includes('Group of 2 attempts')"
        )  # the newest is shown
        page.locator("#episodes .row").nth(1).click()  # from now on what the reader chose stays
        seen.until("document.querySelector('.detail .group').innerText.includes('Group of 3 attempts')")
        with (folder / "episodes.jsonl").open("a") as file:
            file.write("\n" + group(3, [True, False], rng))
        seen.until("document.querySelectorAll('#episodes .row').length >= 3")
        assert "Group of 3 attempts" in page.locator(".detail .group").inner_text()
        assert "line 6" in page.locator(".trouble").inner_text()  # the one whose end was lost
        (folder / "summary.json").write_text(json.dumps({"success_after": 0.5}))
        page.locator(".state.finished").wait_for()
        assert page.locator("#curves figure").first.locator(".level").count() == 1
        assert seen.trouble == []
        page.close()


def test_a_resumed_run_is_shown_as_it_is_now(browser: Any, tmp_path: Path):
    folder, rng = tmp_path / "run", np.random.default_rng(5)
    write_run(folder, steps=30)
    with serving(folder) as server:
        seen = Seen(browser, server.address)
        seen.until("document.querySelectorAll('.tile b')[0]?.innerText === '29'")
        lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        os.truncate(folder / "metrics.jsonl", sum(map(len, lines[:31])))
        os.truncate(folder / "episodes.jsonl", 0)
        seen.until("document.querySelectorAll('.tile b')[0]?.innerText === '10'")
        seen.until("document.querySelector('#episodes').hidden")
        (folder / "episodes.jsonl").write_text(group(11, [True, False], rng))
        seen.until("document.querySelectorAll('#episodes .row').length === 1")
        assert seen.trouble == []
        seen.page.close()


def test_hostile_text_of_groups_errors_and_names_is_shown_as_text(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    write_run(folder, steps=20)
    hostile = [attack_episode(), attack_episode(), attack_episode()]
    hostile[1].attempt, hostile[2].reason, hostile[2].success = 1, "crash", None
    hostile[2].error, hostile[2].group_id = ATTACKS[0], "20/train/0/" + ATTACKS[2]
    with (folder / "episodes.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(one.to_json() + "\n" for one in hostile)
    (folder / "config.toml").write_text(f"env = '''{ATTACKS[0]}'''\n")
    with serving(folder) as server:
        seen = Seen(browser, server.address)
        page = seen.page
        page.locator(".detail .turn").first.wait_for()
        fetch = Watch.group
        monkeypatch.setattr(Watch, "group", lambda *args: (time.sleep(1), fetch(*args))[1])  # so long another one is shown
        page.get_by_label("part").select_option("every part")
        page.locator("#episodes .row", has_text="script").first.click()
        page.locator(".detail:not([aria-busy]) .turn").first.wait_for()
        for details in page.locator("details").all():
            details.evaluate("element => element.open = true")
        text = page.locator("body").inner_text()
        for attack in ATTACKS[:3]:
            assert attack in text
        assert folder.name in page.locator("h1").inner_text() and ATTACKS[0] in page.locator("#errors").inner_text()
        assert page.locator("main img, header img, iframe, main script, svg[onload]").count() == 0
        page.evaluate("""() => {
            const script = document.createElement("script");
            script.textContent = "alert(3)";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=http://127.0.0.1:9/x onerror=alert(1)>");
        }""")
        page.wait_for_timeout(200)
        assert not [line for line in seen.trouble if line.startswith("dialog")]
        assert len([line for line in seen.trouble if "Content Security Policy" in line]) >= 2
        page.close()


def test_a_group_that_cannot_be_drawn_is_said_and_the_next_one_is_shown(
    browser: Any, run_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    with serving(run_folder) as server:
        seen = Seen(browser, server.address)
        page = seen.page
        page.locator(".detail:not([aria-busy]) .turn").first.wait_for()
        fetch = Watch.group
        broken = {"episodes": [{"attempt": 0}]}  # an answer without what every episode has
        monkeypatch.setattr(Watch, "group", lambda *args: broken)
        page.locator("#episodes .row").nth(1).click()
        page.locator(".detail:not([aria-busy])", has_text="This group cannot be shown").wait_for()
        assert page.locator(".detail .turn").count() == 0  # nothing of the group before it
        monkeypatch.setattr(Watch, "group", fetch)
        page.locator("#episodes .row").nth(2).click()
        page.locator(".detail:not([aria-busy]) .turn").first.wait_for()
        assert "cannot be shown" not in page.locator(".detail").inner_text() and seen.trouble == []
        page.close()


def test_several_runs_lie_over_each_other(browser: Any, tmp_path: Path):
    folders = [write_run(tmp_path / side / "run", steps=steps) for side, steps in (("a", 20), ("b", 40))]
    with serving(*folders, tmp_path / "later") as server:
        seen = Seen(browser, server.address)
        page = seen.page
        page.locator("#curves path.line").first.wait_for(state="attached")
        first = page.locator("#curves figure").first
        assert first.locator("path.line.s1").count() == first.locator("path.line.s2").count() == 2  # training, held out
        assert page.locator("#head tbody tr").count() == 3 and "does not exist yet" in page.locator("#head").inner_text()
        assert all(str(folder) in page.locator("#head").inner_text() for folder in folders)  # one name twice: by their paths
        page.get_by_label("run", exact=True).select_option(str(folders[1]))
        page.get_by_label("part").select_option("evaluations")
        assert all("evaluation at step" in text for text in page.locator("#episodes .row").all_inner_texts())
        row = json.loads((folders[0] / "metrics.jsonl").read_text().splitlines()[-1])
        with (folders[0] / "metrics.jsonl").open("a") as file:  # only one of the runs goes on
            file.write(json.dumps(row | {"step": 777}) + "\n")
        seen.until("document.querySelector('#head tbody tr').innerText.includes('777')")
        page.wait_for_timeout(300)
        assert page.locator(".trouble").inner_text() == "" and seen.trouble == []
        page.close()


def test_two_attempts_stand_side_by_side_with_their_tokens(browser: Any, tmp_path: Path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra `train`)")
    folder = tmp_path / "run"
    (folder / "init").mkdir(parents=True)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"<b>{i}": i for i in range(12)}, unk_token="<b>0"))
    words.save(str(folder / "init" / "tokenizer.json"))
    (folder / "config.toml").write_text("")
    (folder / "episodes.jsonl").write_text(group(0, [True, False, True], np.random.default_rng(1)))
    with serving(folder) as server:
        seen = Seen(browser, server.address)
        page = seen.page
        page.get_by_label("beside").select_option("beside attempt 2")
        sides = page.locator(".detail .pair > article")
        assert sides.locator(".badge").all_inner_texts() == ["succeeded", "succeeded"]
        view = sides.nth(1).locator(".token-view").first
        view.locator("summary").click()
        view.locator(".token").first.wait_for()
        assert view.locator(".token").all_inner_texts() == [f"<b>{i}" for i in range(12)]
        assert view.locator(".token.p4, .token.n4").count() > 0
        page.get_by_role("button", name="attempt 1").click()
        assert page.locator(".detail .badge").inner_text() == "failed"
        assert seen.trouble == []
        page.close()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (820, "dark"), (1400, "light")])
def test_nothing_is_wider_than_the_screen(browser: Any, run_folder: Path, tmp_path: Path, width: int, scheme: str):
    for runs in ([run_folder], [run_folder, write_run(tmp_path / ("long" * 20), steps=20)]):
        with serving(*runs) as server:
            seen = Seen(browser, server.address, width, 844, scheme)
            seen.page.locator(".detail .turn").first.wait_for()
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
            assert seen.trouble == []
            seen.page.close()


def test_a_server_that_ends_is_said(browser: Any, run_folder: Path):
    with serving(run_folder) as server:
        seen = Seen(browser, server.address)
        seen.page.locator(".detail .turn").first.wait_for()
        server.shutdown()
        server.server_close()
        seen.page.route("**/*", lambda route: route.abort())  # its thread may hold the connection a while
        seen.page.get_by_text("The server does not answer").wait_for()
        assert seen.page.locator(".detail .turn").count() > 0
        seen.page.close()


def test_only_names_of_this_machine_are_answered(run_folder: Path):
    with serving(run_folder) as server:
        for host in ("127.0.0.1", f"localhost:{server.port}", "[::1]:1234", "127.0.0.2"):
            assert get(server, "/", Host=host)[0] == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", f"rebound.example:{server.port}", "10.0.0.1", "", "@", "[::"):
            status, _, content = get(server, "/state", Host=host)
            assert status in (400, 403) and run_folder.name not in content, host


def test_addresses_are_numbers_and_never_paths(run_folder: Path):
    secret = run_folder.parent / "secret.txt"
    secret.write_text("secret words")
    with serving(run_folder) as server:
        state = json.loads(get(server, "/state")[2])
        number = state["runs"][0]["episodes"]["groups"][0]["group"]
        assert len(json.loads(get(server, f"/group?run=0&group={number}")[2])["episodes"]) >= 1
        for path in (
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/secret.txt",
            "//etc/passwd",
            "/state/..",
            "/group/",
            "/episodes.jsonl",
        ):
            status, _, content = get(server, path)
            assert status in (400, 404) and "secret" not in content and "root:" not in content, path
        for query in (
            "",
            "run=0",
            "run=-1&group=0",
            "run=0&group=1e3",
            "run=../x&group=0",
            "run=%D9%A3&group=0",
            "run=0&group=" + "9" * 400,
        ):
            assert get(server, f"/group?{query}")[0] in (400, 404), query
        for known in ("x", "0.0.0", "0.0.0.0.0", "-1.0.0.0", "99999.99999.0.0", ",,,,", "%D9%A3.0.0.0"):
            answer = json.loads(get(server, f"/state?known={known}")[2])
            assert len(answer["runs"]) == 1
        assert [get(server, "/", method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD")] == [501] * 5
        _, headers, _ = get(server, "/state")
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers and headers["cross-origin-resource-policy"] == "same-origin"


def test_other_machines_need_the_token(browser: Any, run_folder: Path):
    with pytest.raises(BadConfig, match="token"):
        PageServer(Watch([FollowedRun(run_folder)]), "0.0.0.0", 0, None)
    with serving(run_folder, host="0.0.0.0", token="a long; secret") as server:
        for path in ("/", "/state", "/group?run=0&group=0"):
            assert get(server, path)[0] == 401
            assert get(server, path, Authorization="Bearer wrong")[0] == 401
            assert get(server, path, Authorization="Bearer a long; secret", Host="box.example")[0] == 200
        assert get(server, "/?token=wrong")[0] == 401
        cookie = get(server, "/?token=a%20long%3B%20secret")[1]["set-cookie"].split("; HttpOnly")[0]
        for others in ("", 'a={"x": 1}; ', "flag; x[1]=2; "):  # cookies know no ports: some are of other servers here
            assert get(server, "/state", Cookie=others + cookie)[0] == 200, others
        assert get(server, "/state", Cookie=cookie[:-4] + '"')[0] == 401
        seen = Seen(browser, f"http://127.0.0.1:{server.port}/?token=a%20long%3B%20secret")
        seen.page.locator(".detail .turn").first.wait_for()
        assert "token" not in seen.page.url
        assert seen.page.evaluate("document.cookie") == ""  # no script reads it
        assert seen.trouble == []
        seen.page.close()


def many(path: Path, count: int) -> None:
    """Write so many episodes quickly: groups of eight, the steps of a long run, seconds that differ."""
    rng = np.random.default_rng(0)
    made = [episode(i, "STEP/train/0/GROUP", None if i == 7 else i % 2 == 0, rng).to_json() for i in range(50)]
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            line = made[i % 50].replace("STEP/train/0/GROUP", f"{i // 128}/train/0/{i // 8}", 1)
            file.write(line.replace('"attempt": 0', f'"attempt": {i % 8}', 1) + "\n")


def large(browser: Any, folder: Path, count: int) -> dict[str, float]:
    """Show a run with so many episodes, let it grow, and return what it took."""
    folder.mkdir()
    (folder / "config.toml").write_text("steps = 10000\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics(10_000)[20:]))
    many(folder / "episodes.jsonl", count)
    with serving(folder) as server:
        before = time.process_time()
        seen = Seen(browser, server.address)
        page = seen.page
        label = f"{count // 1000}k" if count >= 10_000 else str(count)
        seen.until(f"[...document.querySelectorAll('.tile b')].some(b => b.innerText === '{label}')")
        page.locator(".detail .actions tbody tr").first.wait_for()
        opened = time.process_time() - before
        newest = page.locator("#episodes .row").first.inner_text()
        assert f"step {(count - 1) // 128}" in newest
        read = server.watch.runs[0].episodes.tail.end
        with (folder / "episodes.jsonl").open("a") as file:
            file.write(group(99_999, [True] * 7 + [False], np.random.default_rng(1)))
        seen.until("document.querySelector('#episodes .row').innerText.includes('7 of 8')")
        assert server.watch.runs[0].episodes.tail.end - read < 200_000
        assert page.locator("#episodes .row").count() <= 80 and page.locator("#curves figure").count() > 10
        assert seen.trouble == []
        page.close()
    return {"bytes": read, "cpu seconds to open": opened}


def test_thousands_of_episodes(browser: Any, tmp_path: Path):
    large(browser, tmp_path / "run", BIG)


@pytest.mark.slow
def test_a_hundred_thousand_episodes(browser: Any, tmp_path: Path):
    print(large(browser, tmp_path / "run", 100_000))
