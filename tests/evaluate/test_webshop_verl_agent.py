"""webshop@verl-agent: what the model reads and how its reply is read, against texts written by hand."""

import dataclasses
import json
from pathlib import Path

import changed_prompt
import pytest
from shop_files import CUP, HUMAN, LAMP, MUG, WISHES

import agentgym
from agentgym import BadConfig, Task, UnknownName
from agentgym.agents.parse import Parsed, Reply
from agentgym.agents.prompt import parse_prompt, path_of
from agentgym.cli import main
from agentgym.engines.scripted import ScriptedEngine
from agentgym.evaluate.suite import resolve

NAME = "webshop@verl-agent"
WISH = "i want a travel cup that is leak proof with color: blue, and size: 12 oz, and price lower than 40.00 dollars"
ASKED = """
Now it's your turn to take one action for the current step.
You should first reason step-by-step about the current situation, then think carefully which admissible action best advances the shopping goal. This reasoning process MUST be enclosed within <think> </think> tags.\x20
Once you've finished your reasoning, you should choose an admissible action for current step and present it within <action> </action> tags.
"""  # noqa: E501
FIRST = f"""
You are an expert autonomous agent operating in the WebShop e\u2011commerce environment.\x20
Your task is to: {WISH}.
Your current observation is: 'Search'.
Your admissible actions of the current situation are:\x20
[
'search[<your query>]',
'click[search]',
].
{ASKED}"""
RESULTS = "'Back to Search' [SEP] 'Page 1 (Total results: 1)' [SEP] 'Next >' [SEP] 'B09ABCDEFG' [SEP] 'Travel Cup Double Wall' [SEP] '$12.5 to $20.0'"  # noqa: E501
ITEM = "'Back to Search' [SEP] '< Prev' [SEP] 'color' [SEP] 'blue' [SEP] 'red' [SEP] 'size' [SEP] '12 oz' [SEP] 'Travel Cup Double Wall' [SEP] 'Price: $12.5 to $20.0' [SEP] 'Rating: N.A.' [SEP] 'Description' [SEP] 'Features' [SEP] 'Reviews' [SEP] 'Buy Now'"  # noqa: E501
ITEM_ACTIONS = """[
'click[back to search]',
'click[< prev]',
'click[description]',
'click[features]',
'click[reviews]',
'click[buy now]',
'click[blue]',
'click[red]',
'click[12 oz]',
].
"""
SECOND = f"""
You are an expert autonomous agent operating in the WebShop e\u2011commerce environment.
Your task is to: {WISH}.
Prior to this step, you have already taken 1 step(s). Below are the most recent 1 observations and the corresponding actions you took: [Observation 1: ''Search'', Action 1: 'search[travel cups]']
You are now at step 2 and your current observation is: {RESULTS}.
Your admissible actions of the current situation are:\x20
[
'click[back to search]',
'click[next >]',
'click[b09abcdefg]',
].
{ASKED}"""  # noqa: E501
FOURTH = f"""
You are an expert autonomous agent operating in the WebShop e\u2011commerce environment.
Your task is to: {WISH}.
Prior to this step, you have already taken 3 step(s). Below are the most recent 2 observations and the corresponding actions you took: [Observation 2: '{RESULTS}', Action 2: 'click[b09abcdefg]']
[Observation 3: '{ITEM}', Action 3: 'nt the blue one, too']
You are now at step 4 and your current observation is: {ITEM}.
Your admissible actions of the current situation are:\x20
{ITEM_ACTIONS}{ASKED}"""  # noqa: E501
REPLIES = (
    "<think>A shop.</think><action>search[Travel CUPS]</action>",
    "<think>好</think>\n<action> click[B09ABCDEFG] </action>",
    "I want the BLUE one, too",
    "<think></think><action>click[blue]</action>",
    "<action>click[12 oz]</action>",
    "<think></think><action>click[buy now]</action>",
)


@pytest.fixture
def goods(tmp_path):
    for name, content in (("items_shuffle", [CUP, MUG, LAMP]), ("items_ins_v2", WISHES)):
        (tmp_path / f"{name}_1000.json").write_text(json.dumps(content))
    (tmp_path / "items_human_ins.json").write_text(json.dumps(HUMAN))
    return tmp_path


def wish(env) -> Task:
    """The goal for the blue cup, with a cap written by hand: that of the files is drawn."""
    task = next(task for task in env.tasks(3) if "blue" in task.instruction)
    return dataclasses.replace(task, instruction=WISH, data={**task.data, "cap": 40.0})


def play(goods, replies=REPLIES, prompt=None, **options):
    suite = resolve(NAME)
    agent = agentgym.WindowAgent(ScriptedEngine(replies), prompt=prompt or suite.prompt, observation_tokens=4096)
    options = {**suite.env_options("rlvr/WebShop-v0"), "data": str(goods), **options}
    task = wish(agentgym.make("rlvr/WebShop-v0", split="test", **options))
    (episode,) = agentgym.collect(agent, "rlvr/WebShop-v0", split="test", tasks=[task], env_options=options)
    return episode, [agent.tokenizer.decode(turn.prompt_ids) for turn in episode.turns]


def test_prompts_are_the_published_ones_to_the_letter(goods) -> None:
    episode, prompts = play(goods)
    for place, text in ((0, FIRST), (1, SECOND), (3, FOURTH)):
        assert prompts[place] == f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    assert [turn.action for turn in episode.turns] == [
        "search[travel cups]",
        "click[b09abcdefg]",
        "nt the blue one, too",
        "click[blue]",
        "click[12 oz]",
        "click[buy now]",
    ]
    assert [turn.parsed for turn in episode.turns] == [True, True, False, True, False, True]
    assert episode.success and episode.metrics["score"] == 1.0
    assert episode.final_observation.startswith("Thank you for shopping with us! [SEP] Your code: [SEP] None")  # as it is


def test_a_later_prompt_that_is_too_long_is_the_first_ones(goods) -> None:
    text = path_of(NAME).read_text(encoding="utf-8")
    prompts = {}
    for most in (len(SECOND), len(SECOND) - 1):  # that many may stand; one more is too long
        prompt = goods / f"{most}.txt"
        prompt.write_text(text.replace("13000", str(most)), encoding="utf-8")
        prompts[most] = play(goods, REPLIES[:1] + REPLIES[-1:], prompt, horizon=2)[1][1]
    assert f"user\n{SECOND}<|im_end|>" in prompts[len(SECOND)]
    short = FIRST.replace("'Search'.", f"{RESULTS}.").replace("'search[<your query>]',\n'click[search]'", "{clicks}")
    clicks = "'click[back to search]',\n'click[next >]',\n'click[b09abcdefg]'"
    assert f"user\n{short.replace('{clicks}', clicks)}<|im_end|>" in prompts[len(SECOND) - 1]


def test_what_it_fixes() -> None:
    suite = resolve(NAME)
    found = (suite.split, suite.tasks, suite.horizon, suite.temperature, suite.turn_tokens, suite.observation_tokens)
    assert found == ("test", 500, 15, 0.4, 512, 4096)
    assert suite.env_options("rlvr/WebShop-v0") == {
        "horizon": 15, "pages": "verl-agent", "goals": "synthetic", "products": 1000, "feedback": "genuine"
    }  # fmt: skip
    assert suite.agent == "window" and suite.protocol is not None
    assert suite.protocol.admissible and suite.protocol.history == "last 2"


@pytest.mark.parametrize(
    ("old", "new"), [("e\u2011commerce", "e-commerce"), ("environment. \n", "environment.\n"), ("13000", "13001")]
)
def test_a_word_changed_is_refused(old: str, new: str, tmp_path: Path) -> None:
    changed_prompt.refused(NAME, old, new, tmp_path)


@pytest.mark.parametrize(
    ("text", "action", "valid"),
    [
        ("<think>好</think><action>Click[Red]</action>", "click[red]", True),  # Chinese is no fault here
        ("<action>click[red]</action>", "click[red]", False),
        ("<think></think>click[buy now] would be the best", "w] would be the best", False),
        ("<think>a</think><action>a</action><action>b</action>", "a", True),
    ],
)
def test_replies_are_read_as_its_projection_does(text: str, action: str, valid: bool) -> None:
    assert Reply.read("verl-agent-webshop", "p").parse(text, {}) == Parsed(action, valid)


def test_the_search_bar_is_listed_and_its_button_does_nothing() -> None:
    env = agentgym.make("rlvr/Shop-v0", pages="verl-agent")
    text, info = env.reset(seed=0)
    assert text == "'Search'" and info["admissible"] == ["search[<your query>]", "click[search]"]
    text, _, _, _, info = env.step("click[search]")
    assert text == "'Search'" and info["valid"] and env.page == "search"
    assert env.step("click[buy now]")[0] == "'Search'" and not agentgym.make("rlvr/Shop-v0").reset(seed=0)[1]["admissible"]
    with pytest.raises(UnknownName, match="Did you mean 'verl-agent'"):
        agentgym.make("rlvr/Shop-v0", pages="verlagent")


def test_the_small_files_are_read_where_no_more_is_for_sale(goods) -> None:
    (goods / "items_shuffle.json").write_text(json.dumps([LAMP]))
    (goods / "items_ins_v2.json").write_text(json.dumps(WISHES))
    sold = {
        count: len(agentgym.make("rlvr/WebShop-v0", data=str(goods), split="test", products=count).goods.catalogue.products)
        for count in (0, 1000)
    }
    assert sold == {0: 1, 1000: 3}


def test_the_limit_is_a_number() -> None:
    with pytest.raises(BadConfig, match=r"\[most\] is 'many'; expected a number of characters"):
        parse_prompt("[turn]\n{observation}\n[reply]\nbare\n[most]\nmany\n", "p")


def test_it_is_played_by_its_name(goods, tmp_path, capsys) -> None:
    lines = [json.dumps(reply) for reply in REPLIES]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines + [lines[-1]] * 9) + "\n")
    command = ["eval", NAME, "--model", f"scripted:{tmp_path / 'replies.jsonl'}", "--out", str(tmp_path / "out")]
    assert main([*command, "--env.data", str(goods)]) == 0
    assert "protocol webshop@verl-agent, with 3 of its 500 tasks: not comparable" in capsys.readouterr().out.replace(
        "\n", " "
    )
    options = json.loads((tmp_path / "out" / "manifest.json").read_text())["options"]
    assert options["observation_tokens"] == 4096 and options["envs"]["rlvr/WebShop-v0"]["options"]["pages"] == "verl-agent"
    assert main([*command, "--observation-tokens", "99"]) == 2
    assert "fixes what --observation-tokens would change" in capsys.readouterr().err
