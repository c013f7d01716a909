"""The shop: WebShop's pages to the letter, its files, and who buys what."""

import json
import random
import re

import pytest
from shop_files import CUP, HUMAN, LAMP, MUG, WISHES, product

import agentgym
from agentgym import BadConfig, BadData
from agentgym.envs.shop.catalogue import Catalogue, terms
from agentgym.envs.shop.env import _parted
from agentgym.envs.shop.generate import SIZE, catalogue


@pytest.fixture
def folder(tmp_path):
    items = [CUP, CUP, MUG, LAMP, {**MUG, "asin": "nan"}, {**MUG, "asin": "B0TOOLONGNAME"}]
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps(items))
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(WISHES))
    (tmp_path / "items_human_ins.json").write_text(json.dumps(HUMAN))
    return tmp_path


def web(folder, **options):
    return agentgym.make("rlvr/WebShop-v0", data=str(folder), split="test", **options)


def test_pages_are_webshops_to_the_letter(folder):
    env = web(folder)
    task = next(task for task in env.tasks(3) if "blue" in task.instruction)
    text, info = env.reset(seed=0, options={"task": task})
    wish = task.instruction
    assert wish.startswith("i want a travel cup that is leak proof with color: blue, and size: 12 oz, and price lower than")
    assert text == f"WebShop [SEP] Instruction: [SEP] {wish} [SEP] Search" and info["admissible"] is None
    text, _, _, _, info = env.step("search[Travel CUPS]")
    results = "B09ABCDEFG [SEP] Travel Cup Double Wall [SEP] $12.5 to $20.0"
    head = f"Instruction: [SEP] {wish} [SEP] Back to Search"
    assert text == f"{head} [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] {results}"
    assert info["admissible"] == ["click[back to search]", "click[next >]", "click[b09abcdefg]"]
    assert env.step("click[Next >]")[0] == f"{head} [SEP] Page 2 (Total results: 1) [SEP] < Prev [SEP] Next >"
    env.step("click[< Prev]")
    values = "color [SEP] blue [SEP] red [SEP] size [SEP] 12 oz [SEP] Travel Cup Double Wall [SEP] Price: $12.5 to $20.0"
    item = (
        f"{head} [SEP] < Prev [SEP] {values} [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    text, _, _, _, info = env.step("click[B09ABCDEFG]")
    assert text == item
    clicks = ["back to search", "< prev", "description", "features", "reviews", "buy now", "blue", "red", "12 oz"]
    assert info["admissible"] == [f"click[{one}]" for one in clicks]
    assert env.step("click[red]")[0] == env.step("click[Blue] and more")[0] == item  # what is chosen is not shown
    assert env.step("click[features]")[0] == f"{head} [SEP] < Prev [SEP] Dishwasher safe. [SEP] Leak proof."
    assert env.step("click[< prev]")[0] == item
    assert env.step("click[reviews]")[0] == f"{head} [SEP] < Prev"
    env.step("click[< prev]")
    env.step("click[12 oz]")
    text, reward, terminated, _, info = env.step("click[buy now]")
    parts = [
        "Thank you for shopping with us!",
        "Your code:",
        "None",
        "(Paste it in your MTurk interface.)",
        "Purchased",
        "asin",
    ]
    parts += [
        "B09ABCDEFG",
        "options",
        '{"color": "blue", "size": "12 oz"}',
        "attrs",
        "category",
        "query",
        "product category",
    ]
    parts += [
        "Target",
        "asin",
        "options",
        "attrs",
        "price upper",
        "instuction text",
        "category",
        "product category",
        "query",
    ]
    parts += ["Goal", "None", "Reward", "Your score (min 0.0, max 1.0)", "1.0", "Reward Details", "None"]
    assert text.split(" [SEP] ") == parts
    assert (reward, terminated, info["success"], info["metrics"]["score"]) == (1.0, True, True, 1.0)


def test_searches_and_ways_back_clear_what_was_chosen(folder):
    env = web(folder)
    env.reset(seed=0, options={"task": "test/0"})
    for action in ("search[cup]", "click[b09abcdefg]", "click[red]", "click[description]", "click[< prev]"):
        env.step(action)
    assert env.options_taken == {"color": "red"}
    env.step("click[< prev]")
    env.step("click[b09abcdefg]")
    assert env.options_taken == {}
    env.step("click[red]")
    env.step("search[cup]")  # from any page
    assert env.page == "results" and env.options_taken == {}


def test_fewer_results_a_page(folder):
    env = web(folder, per_page=2)
    env.reset(seed=0, options={"task": "test/0"})
    env.step("search[dishwasher safe mug cup lamp]")
    first = env.results()
    env.step("click[next >]")
    assert len(first) == 2 and len(env.results()) == 1 and first + env.results() == env.shop.search(env.keywords)
    for wrong in (0, True, "5"):
        with pytest.raises(BadConfig, match=r"per_page of WebShop is .*expected a number from 1"):
            web(folder, per_page=wrong)


def test_a_page_of_attributes_where_asked_for(folder):
    env = web(folder, show_attrs=True)
    env.reset(seed=0, options={"task": "test/0"})
    env.step("search[cup]")
    text, _, _, _, info = env.step("click[b09abcdefg]")
    assert text.endswith("Description [SEP] Features [SEP] Reviews [SEP] Attributes [SEP] Buy Now")
    assert info["admissible"][2:7] == [
        f"click[{one}]" for one in ("description", "features", "reviews", "attributes", "buy now")
    ]
    env.step("click[red]")
    attributes = "double wall [SEP] leak proof [SEP] kitchen [SEP] cups [SEP] Home & Kitchen › Kitchen & Dining › Cups"
    assert env.step("click[attributes]")[0].endswith(f"Back to Search [SEP] < Prev [SEP] {attributes}")
    assert env.step("click[< prev]")[0] == text and env.options_taken == {"color": "red"}
    plain = web(folder)
    plain.reset(seed=0, options={"task": "test/0"})
    plain.step("search[cup]")
    plain.step("click[b09abcdefg]")
    assert not plain.step("click[attributes]")[4]["valid"]


def test_wrong_actions_are_answered_as_there_or_explained(folder):
    env = web(folder)
    page, _ = env.reset(seed=0, options={"task": "test/0"})
    for action in ("buy", "click[search]", "click[buy now]", "search[]", "Search[x]", "xclick[buy now]"):
        text, reward, _, _, info = env.step(action)
        assert text == page and not info["valid"] and info["error"] and not reward, action
    env = web(folder, feedback="helpful")
    env.reset(seed=0, options={"task": "test/0"})
    env.step("search[cup]")
    assert env.step("click[blue]")[0] == (
        "'click[blue]' is not on this page. Possible: click[back to search], click[next >], click[b09abcdefg]."
    )


def test_brackets_are_read_as_webshops_expression_does_in_one_pass(folder):
    for action in (
        "a[b]",
        "a[b][c]d",
        "[a]",
        "a[]",
        "a[]]",
        "a[[b]",
        "a[b\n]",
        "a[b]\nc[d]",
        "a]b[",
        "a[b]c[",
        " a[B] ",
        "",
    ):
        match = re.match(r"(.+)\[(.+)\]", action.strip())
        assert _parted(action) == ((match[1], match[2].lower()) if match else ("", "")), action
    env = web(folder)
    env.reset(seed=0, options={"task": "test/0"})
    for action in ("]" + "[" * 99_000, "[" * 99_000 + "]" + "[" * 900):  # an expression takes minutes
        assert not env.step(action)[4]["valid"]


def test_files_are_read_by_webshops_rules(folder):
    env = web(folder)
    shop = env.shop if hasattr(env, "shop") else env.catalogue(0)
    assert [product.asin for product in shop.products] == ["B09ABCDEFG", "B0MUG00000", "B0LAMP0000"]
    cup, mug, lamp = shop.products
    assert cup.options == {"color": ("blue", "red"), "size": ("12 oz",)} and 12.5 <= cup.price <= 20
    assert (mug.price, mug.price_tag, lamp.price, lamp.price_tag) == (8.0, "$8.0", 100.0, "$100.0")
    assert lamp.attributes == ("DUMMY_ATTR",) and cup.query == "cups"
    drafts = ["blue", "red", "a mug"]
    random.Random(233).shuffle(drafts)
    found = [env.find(f"test/{place}").instruction for place in range(3)]
    assert [word in text for word, text in zip(drafts, found, strict=True)] == [True] * 3
    assert env.size() == 3 and env.size("train") == 0
    with pytest.raises(BadData, match="split train begins at goal 1500"):
        agentgym.make("rlvr/WebShop-v0", data=str(folder)).numbered(0)


def test_a_goal_is_of_one_split(folder):
    env = web(folder)
    assert env.find("test/0").id == "test/0"
    with pytest.raises(BadConfig, match="goal 0 is of split test"):
        env.find("train/0")


def test_peoples_goals_have_values_alone(folder):
    env = web(folder, goals="human")
    (task,) = env.up_to(5)
    assert task.instruction.startswith("I like a blue cup, and price lower than") and task.data["options"] == ["blue"]
    env.reset(seed=0, options={"task": task})
    while env.success is None:
        env.step(next(env.oracle()))
    assert env.success


def test_the_same_prices_and_caps_in_every_process(folder):
    import subprocess
    import sys

    code = (
        "import sys, agentgym; e = agentgym.make('rlvr/WebShop-v0', data=sys.argv[1], split='test');"
        "print([t.instruction for t in e.tasks(3)], e.catalogue(0).products[0].price)"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True).stdout for _ in range(2)
    }
    assert len(runs) == 1 and "travel cup" in runs.pop()


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    with pytest.raises(BadConfig, match="WebShop needs data=FOLDER"):
        agentgym.make("rlvr/WebShop-v0")
    with pytest.raises(BadConfig, match=r"has neither items_shuffle\.json"):
        web(tmp_path)
    (tmp_path / "items_shuffle.json").write_text("{}")
    (tmp_path / "items_ins_v2.json").write_text("{}")
    with pytest.raises(BadData, match="holds a dict; expected a list"):
        web(tmp_path)


def test_one_bad_product_refuses_no_file(folder):
    """As WebShop does, columns that its site shows nobody are not read; a product without a name cannot be sold."""
    file = folder / "items_shuffle_1000.json"
    items = json.loads(file.read_text())
    whole = web(folder)
    bad = [{key: value for key, value in items[0].items() if key != "name"}, {"asin": 3}, 7]
    file.write_text(
        json.dumps([*({**bad[0], "asin": "B0BADBAD00"}, *bad[1:]), *({**item, "brand": "Kup Co."} for item in items)])
    )
    with pytest.warns(UserWarning, match="3 of 6 rows are not played"):
        env = web(folder, products=len(items) + 3)
    assert [task.instruction for task in env.tasks(3)] == [task.instruction for task in whole.tasks(3)]
    with pytest.raises(BadData, match="product 0: B0BADBAD00 has no usable 'name'"):
        web(folder, products=len(items) + 3, strict=True)


def test_words_are_lucenes():
    assert terms("The Women's running shoes, for wide-fit feet") == ["women", "run", "shoe", "wide", "fit", "feet"]


def test_the_search_ranks_by_bm25_and_finds_at_most_fifty():
    shop = Catalogue([product(asin=f"B0{n:08}", title=f"Cup {'red ' * (n % 7)}") for n in range(80)])
    found = shop.search("red")
    assert len(found) == 50 and found[0] == "b000000006"
    assert shop.search("zebra") == () and shop.search("the of") == ()


def test_back_doors_are_words_like_others():
    """There `<r>` shows random products, and `<a>`, `<c>` and `<q>` look at attributes, categories and queries."""
    shop = catalogue(SIZE)
    product = shop.products[0]
    assert shop.search("<r> red") == shop.search("r red") and shop.search("<r>") == shop.search("r")
    hidden = {"a": product.attributes[-1], "c": product.category, "q": product.query}
    for letter, words in hidden.items():
        found = shop.search(f"<{letter}> {words}")
        assert found == shop.search(f"{letter} {words}") and len(found) <= 50


def test_searches_of_any_length_are_not_kept():
    shop = Catalogue([product(title="Red cup"), product(asin="B012345678", title="Lamp")])
    long = "cup " * 20_000
    assert shop.search(long) == shop.search("cup") != () and list(shop._found) == ["cup"]
    assert terms("y" * 90_000) == ["y" * 90_000]


@pytest.mark.parametrize("words", ["s", "%s", "'s", "the", "\u0301", ""])
def test_words_that_have_no_stem_are_found_nowhere(words):
    env = agentgym.make("rlvr/Shop-v0")
    env.reset(seed=0)
    assert "Total results: 0" in env.step(f"search[{words}]")[0] or not words
