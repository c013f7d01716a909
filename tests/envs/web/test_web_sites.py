"""The sites without a browser: every page and form, hostile text, log in and out, restoring, episodes apart."""

from urllib.parse import urljoin, urlsplit

import pytest
from web_pages import TextBrowser

from agentgym.envs.web.plan import Click, Fill, Goto
from agentgym.envs.web.sites import SITES, apps
from agentgym.envs.web.state import EpisodeState

HOSTILE = "a: <script>alert(1)</script><b onclick='x'>\"quoted\" & {{ 7 * 7 }} [[<i>]]"
HOSTS = [host for hosts, _ in SITES.values() for host in hosts]


def crawl(browser, host, most=60):
    """Open pages of a site from the first on, and yield the address of each."""
    waiting, seen = [f"http://{host}/"], set()
    while waiting and len(seen) < most:
        url = waiting.pop(0)
        if url in seen:
            continue
        seen.add(url)
        browser.act(Goto(url))
        yield url
        links = [urljoin(browser.url, e.attrs["href"]) for e in browser.elements if e.tag == "a" and "href" in e.attrs]
        waiting += [link for link in links if urlsplit(link).netloc == host]


def submit_all(browser, url, text):
    """Fill the fields of every form of a page with a text, choose the last option of its lists, send it; yield each time."""
    count = sum(e.tag == "form" for e in browser.elements)
    for number in range(count):
        browser.act(Goto(url))
        forms = [e for e in browser.elements if e.tag == "form"]
        if number >= len(forms):  # an earlier one took it away
            continue
        form = forms[number]
        if form.attrs.get("action") in ("/logout", "/restore"):
            continue
        for e in form.walk():
            if e.tag == "textarea":
                e.children = [text]
            elif e.tag == "input" and e.attrs.get("type", "text") in ("text", "search"):
                e.attrs["value"] = text
            elif e.tag == "select":
                options = [one for one in e.walk() if one.tag == "option"]
                for one in options:
                    one.attrs.pop("selected", None)
                if options:
                    options[-1].attrs["selected"] = ""
        button = next((e for e in form.walk() if e.tag == "button" or e.attrs.get("type") == "submit"), None)
        if button is not None:
            browser._clicked(button)
            yield button.text


@pytest.mark.parametrize("host", HOSTS)
def test_every_link_leads_to_a_page(host):
    browser = TextBrowser(EpisodeState(3))
    for url in crawl(browser, host, 50):
        assert browser.status == 200, url
        assert browser.top.text and any(e.tag == "h1" for e in browser.elements), url
        ids = [e.attrs["id"] for e in browser.elements if "id" in e.attrs]
        assert len(ids) == len(set(ids)), (url, sorted(ids))
        for node in browser.page().root.walk():
            assert node.name or node.role not in ("link", "button", "textbox", "combobox", "searchbox"), (url, node)
    digest, fresh = (state.digest(traces=False) for state in (browser.state, browser.state.fresh()))
    assert digest == fresh, "looking at pages changes something"


@pytest.mark.parametrize("host", HOSTS)
def test_hostile_text_is_shown_as_text(host):
    browser, pages_seen = TextBrowser(EpisodeState(4)), 0

    def look():
        raw = browser.html.replace("[[&lt;", "")
        assert "<script" not in raw and "<b onclick" not in raw and "<i>" not in raw, browser.url
        return "&lt;script&gt;alert(1)&lt;/script&gt;" in raw and "{{ 7 * 7 }}" in raw

    for url in list(crawl(browser, host, 20)):
        browser.act(Goto(url))
        pages_seen += sum(look() for _ in submit_all(browser, url, HOSTILE))
    stored = sum(look() for _ in crawl(browser, host, 40))
    assert pages_seen and stored + pages_seen > 1, "the text is nowhere: nothing was stored"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("text", ["", "x" * 60_000 + "\x00\x1b\u202e'; DROP TABLE session; --", "9" * 30])
def test_no_form_breaks_a_site(host, text):
    browser = TextBrowser(EpisodeState(5))
    for url in list(crawl(browser, host, 8)):
        browser.act(Goto(url))
        list(submit_all(browser, url, text))  # the browser of the tests fails at any answer from 500 on
    browser.act(Goto(f"http://{host}/{text[:40] or 'nothing'}"))
    assert browser.act(Goto(f"http://{host}/")).has("link", "Restore demo data")


@pytest.mark.parametrize("host", HOSTS)
def test_log_out_and_in(host):
    state = EpisodeState(6)
    browser = TextBrowser(state)
    browser.act(Goto(f"http://{host}/"))
    start = state.digest()
    page = browser.act(Click("button", "Log out"))
    assert state.digest() != start and page.has("button", "Log in")
    browser.act(Fill("User name", state.me.username))
    browser.act(Fill("Password", "wrong"))
    page = browser.act(Click("button", "Log in"))
    assert browser.status == 422 and page.says("User name or password is wrong.")
    browser.act(Fill("Password", state.me.password))
    page = browser.act(Click("button", "Log in"))
    assert page.has("button", "Log out") and state.digest() == start


def test_who_is_logged_out_changes_nothing():
    state = EpisodeState(6)
    browser = TextBrowser(state)
    browser.act(Goto("http://shop.test/product/1"))
    browser.act(Click("button", "Log out"))
    digest = state.digest()
    for path in ("/product/1/cart", "/product/1/wish", "/checkout", "/addresses/1/delete", "/orders/1/cancel"):
        page = browser.request("POST", f"http://shop.test{path}", [("quantity", "1")])
        assert page.has("button", "Log in") and state.digest() == digest
    for url in ("//evil.test/", "/\\evil.test", "http://evil.test/", "/%09/evil.test"):
        values = [("username", state.me.username), ("password", state.me.password), ("next", url)]
        browser.request("POST", "http://shop.test/login", values)
        assert urlsplit(browser.url).netloc == "shop.test"


def test_wrong_input_is_named_and_changes_nothing():
    state = EpisodeState(7)
    browser = TextBrowser(state)
    start = state.digest()
    row = state.rows("shop", "SELECT * FROM product WHERE stock > 0 ORDER BY stock")[0]
    for quantity, message in (("0", "whole number"), ("two", "whole number"), (str(row["stock"] + 1), "in stock")):
        browser.act(Goto(f"http://shop.test/product/{row['id']}"))
        browser.act(Fill("Quantity", quantity))
        page = browser.act(Click("button", "Add to cart"))
        assert browser.status == 422 and page.says(message)
    browser.act(Goto("http://shop.test/addresses/new"))
    browser.act(Fill("Postcode", "12a45"))
    page = browser.act(Click("button", "Save address"))
    assert page.says("Postcode must be five digits.") and page.says("Label must not be empty.")
    assert page.find("textbox", "Postcode").value == "12a45", "what was typed is kept"
    assert state.digest() == start


def test_only_the_author_changes_a_topic():
    state = EpisodeState(8)
    browser = TextBrowser(state)
    sql = "SELECT id FROM topic WHERE username <> ? ORDER BY id"
    other = state.one("forum", sql, state.me.username)
    browser.request("POST", f"http://forum.test/t/{other}/delete")
    assert browser.status == 403
    browser.request("POST", f"http://forum.test/t/{other}/edit", [("title", "mine"), ("body", "now")])
    assert browser.status == 403 and state.digest() == state.fresh().digest()


def test_restoring_and_undoing_bring_the_first_state_back():
    state = EpisodeState(9)
    browser, start = TextBrowser(state), state.digest()
    browser.act(Goto("http://wiki.test/watchlist"))
    browser.act(Click("button", "Remove"))
    browser.act(Goto("http://shop.test/wishlist"))
    browser.act(Click("button", "Remove"))
    assert state.digest() != start
    browser.act(Goto("http://forum.test/restore"))
    browser.act(Click("button", "Restore all sites"))
    assert state.digest() == start
    browser.act(Goto("http://forum.test/t/1"))
    browser.act(Click("button", "Vote for this topic"))
    assert state.digest() != start
    browser.act(Click("button", "Take back vote"))
    assert state.digest() == start


def test_episodes_do_not_see_each_other():
    one, two = TextBrowser(EpisodeState(1)), TextBrowser(EpisodeState(1))
    one.act(Goto("http://forum.test/t/1"))
    two.act(Goto("http://forum.test/t/1"))
    one.act(Click("button", "Vote for this topic"))
    assert two.act(Goto("http://forum.test/t/1")).has("button", "Vote for this topic")
    assert one.act(Goto("http://forum.test/t/1")).has("button", "Take back vote")
    assert two.state.digest() == two.state.fresh().digest() != one.state.digest()


def test_sizes_grow_and_seeds_differ():
    tables = {"shop": "product", "forum": "topic", "wiki": "page"}
    for site, table in tables.items():
        counts = [EpisodeState(1, size).one(site, f"SELECT count(*) FROM {table}") for size in (0, 3, 10)]
        assert counts[0] < counts[1] < counts[2]
        assert (
            len({repr([tuple(row) for row in EpisodeState(seed).rows(site, f"SELECT * FROM {table}")]) for seed in range(5)})
            == 5
        )
    assert set(apps()) == set(HOSTS)
