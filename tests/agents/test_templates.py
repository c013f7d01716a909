"""The bridge over every chat template that TRL ships, and what a template must offer to be used."""

import re
from typing import Any

import pytest
from tokenizers_for_tests import byte_level, survey

from agentgym import ChatAgent, Task
from agentgym.agents.encode import UntrustedText
from agentgym.agents.template import ChatTemplate
from agentgym.engines import Completion
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.errors import BadConfig

SURVEY = survey()
TEMPLATES = SURVEY.templates()
TABLE = SURVEY.PAGE.read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_bridge_is_the_templates_own_rendering(name: str) -> None:
    row = SURVEY.survey(name, TEMPLATES[name])  # raises where the agents' tokens differ from the tokenizer's
    assert not row.problem
    (listed,) = re.findall(rf"^\| `{name}` \|.*$", TABLE, re.MULTILINE)
    assert listed == SURVEY.page([row]).splitlines()[-1], "run `python benchmarks/templates.py`"


def test_table_lists_every_template_and_no_other() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TABLE, re.MULTILINE) == sorted(TEMPLATES)


def test_qwen3_sees_observations_as_tool_results() -> None:
    template = ChatTemplate(SURVEY.tokenizer_for(TEMPLATES["qwen3"]))
    assert template.role == "tool"
    bridge = template.encoder.decode(template.bridge([UntrustedText("a cup")], ended=False))
    inside = "<tool_response>\na cup\n</tool_response>"
    assert bridge == f"<|im_end|>\n<|im_start|>user\n{inside}<|im_end|>\n<|im_start|>assistant\n"
    assert template.encoder.decode(template.bridge([UntrustedText("a cup")])) == bridge.removeprefix("<|im_end|>")


def test_llama_writes_tool_results_as_json() -> None:
    template = ChatTemplate(SURVEY.tokenizer_for(TEMPLATES["llama3_1"]))
    bridge = template.encoder.decode(template.bridge([UntrustedText('say "é"\n')]))
    assert '\n\n"say \\"é\\"\\n"<|eot_id|>' in bridge


def test_what_the_generation_prompt_opens_is_the_prompts() -> None:
    template = ChatTemplate(SURVEY.tokenizer_for(TEMPLATES["qwen3_5_think"]))
    assert template.opened == "<think>\n"
    control = template.encoder.control["<think>"]
    assert template.start([], [UntrustedText("x")])[-2] == control and template.bridge([UntrustedText("x")])[-2] == control
    engine = ScriptedEngine(["thinking\n</think>\n\n<action>go</action>"], SURVEY.tokenizer_for(TEMPLATES["qwen3_5_think"]))
    talk = ChatAgent(engine).begin(Task(), {})
    talk.prompt("x", {})
    ids = engine.tokenizer.encode("thinking\n</think>\n\n<action>go</action>", add_special_tokens=False)
    assert talk.reply(Completion(ids, [], "stop")) == "go" and talk.parsed


def test_turns_that_end_with_the_next_ones_opener() -> None:
    template = ChatTemplate(SURVEY.tokenizer_for(TEMPLATES["glm4moe"]))
    observation, user = (template.encoder.control[s] for s in ("<|observation|>", "<|user|>"))
    assert template.stop_ids[:2] == (observation, user)
    assert template.ended([5, observation]) and not template.ended([5, user])  # after <|user|> the opener is still to come


def test_the_action_is_looked_for_in_the_final_channel() -> None:
    engine = ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES["gptoss"]))
    analysis = "<|channel|>analysis<|message|>Say <action>no</action>?<|end|><|start|>assistant"
    for prompt, reply in (("bare", "look"), ("act", "<action>look</action>")):
        talk = ChatAgent(engine, prompt=prompt).begin(Task(), {})
        talk.prompt("x", {})
        ids = engine.tokenizer.encode(f"{analysis}<|channel|>final<|message|>{reply}<|return|>", add_special_tokens=False)
        assert talk.reply(Completion(ids, [], "stop")) == "look" and talk.parsed
        assert talk.text.startswith("<|channel|>analysis")


def test_a_date_in_the_prompt_never_depends_on_the_clock() -> None:
    tokenizer = SURVEY.tokenizer_for(TEMPLATES["gptoss"])
    template = ChatTemplate(tokenizer)
    assert "Current date: 2024-07-26" in template.encoder.decode(template.start([], ["hi"]))
    other = ChatTemplate(tokenizer, {"strftime_now": lambda _: "today"})
    assert "Current date: today" in other.encoder.decode(other.start([], ["hi"]))


def test_options_reach_the_template() -> None:
    template = ChatTemplate(SURVEY.tokenizer_for(TEMPLATES["qwen3"]), {"enable_thinking": False})
    assert template.encoder.decode(template.start([], ["hi"])).endswith("assistant\n<think>\n\n</think>\n\n")
    assert not template.opened


def test_system_text_without_a_system_role_opens_the_first_message() -> None:
    template = ChatTemplate(SURVEY.tokenizer_for(TEMPLATES["gemma"]))
    text = template.encoder.decode(template.start(["Be brief."], [UntrustedText("A room.")]))
    assert text == "<bos><start_of_turn>user\nBe brief.\n\nA room.<end_of_turn>\n<start_of_turn>model\n"


def test_the_byte_tokenizers_template_is_chatml() -> None:
    template = ChatTemplate(ByteTokenizer())
    assert template.encoder.decode(template.start([], ["hi"])) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "no chat_template"),
        ("nothing at all", "renders no user message"),
        ("{{ messages[0]['content'] }}", "cannot render an observation after a reply"),
        (
            "{% for m in messages[::-1] %}<|im_start|>{{ m['content'] }}{% endfor %}",
            "cannot render an observation after a reply",
        ),
        ("{{ raise_exception('no') }}", "renders no user message"),
    ],
)
def test_templates_that_cannot_be_used_are_refused(source: str | None, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        ChatTemplate(byte_level(template=source))


def test_no_template_is_rendered_while_an_episode_runs() -> None:
    class Counting(ByteTokenizer):
        renderings = 0

        def apply_chat_template(self, *messages: Any, **options: Any) -> Any:
            Counting.renderings += 1
            return super().apply_chat_template(*messages, **options)

    agent = ChatAgent(ScriptedEngine([], Counting()), prompt="react")
    for episode in range(3):
        talk = agent.begin(Task(instruction=f"task {episode}"), {})
        for turn in range(4):
            if (episode, turn) == (0, 2):
                Counting.renderings = 0
            talk.prompt(f"room {episode} {turn}", {})
            talk.reply(Completion([65, 258], [], "stop"))
    assert Counting.renderings == 0
    agent.begin(Task(), {}).prompt("  white space of another shape", {})
    assert Counting.renderings == 1
