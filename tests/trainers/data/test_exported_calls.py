"""Tool calls as other trainers get them: mappings, in one message a reply, through a file and every template of TRL's.

TRL 1.16.0, datasets 5.2.0, transformers 5.19.0.
"""

import json

import pytest
from native_talks import SOURCES, TOOLS, agent_for, call_text
from tokenizers_for_tests import survey

from agentgym import Task
from agentgym.agents.native import NOT_EXECUTED
from agentgym.engines import Completion
from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.data.conversations import conversations
from agentgym.trainers.data.export import Rows, write_parquet

TEMPLATES = survey().templates()
SEARCH, CUP = ("search", {"query": 'a "cup" é', "k": 2}), ("submit", {"answer": "007"})

ONE_CALL = {
    "gptoss": "writes the first of several calls",
    "gptoss_training": "writes the first of several calls",
    "llama3_1": "raises at several calls",
    "llama3_2": "raises at several calls",
}
"""Templates that take one call a message."""
NO_CALLS = {
    **dict.fromkeys(("deepseekv3",), "takes arguments as JSON text alone, and shows no tools"),
    **dict.fromkeys(("deepseek_r1_distill", "deepseek_r1_distill_training", "lfm2", "lfm2_training"), "drops calls"),
    **dict.fromkeys(("llama3", "llama3_training", "phi3", "phi3_training", "phi3_5", "phi3_5_training"), "drops calls"),
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_training"), "drops calls"),
    **dict.fromkeys(("cohere", "cohere_training", "cohere2", "cohere2_training"), "raises at the role tool"),
    **dict.fromkeys(("gemma", "gemma_training", "gemma3", "gemma3_training"), "raises at the role tool"),
    **dict.fromkeys(("idefics3", "idefics3_training", "llava_next", "llava_next_training"), "takes no text as content"),
    **dict.fromkeys(("smolvlm", "smolvlm_training"), "takes no text as content"),
}
"""Templates that have no place for calls, and what they do with one; the list of docs/guides/data.md."""


def hermes(*calls):
    written = (json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)


def turn(action, *messages, text="", **values):
    return Turn("o", messages=list(messages), text=text, action=action, **values)


def says(role, content, **values):
    return {"role": role, "content": content, **values}


def action(name, arguments):
    return json.dumps({"name": name, "arguments": arguments})


def episode(*turns):
    return Episode("rlvr/None-v0", "t", "g", 0, 0, list(turns), reward=1.0, success=True, reason="success")


def two_calls():
    """A reply with two calls, as tokens and as a server has them: a turn each."""
    first, second, third = action(*SEARCH), action(*CUP), action("submit", {"answer": ""})
    opening = (says("system", "Be brief."), says("user", "Find it."))
    ids = [{"prompt_ids": [1, 2], "output_ids": [3]}, {"prompt_ids": [1, 2, 3], "output_ids": [4]}]
    ids.append({"prompt_ids": [1, 2, 3, 4, 5], "output_ids": [6]})
    native = episode(
        turn(first, *opening, text=f"<think>a</think>\n{hermes(SEARCH)}", **ids[0]),
        turn(second, says("tool", "R1"), text=hermes(CUP), **ids[1]),
        turn(third, says("tool", "R2"), text=hermes(("submit", {"answer": ""})), **ids[2]),
    )
    served = episode(
        turn(first, *opening, text="<think>a</think>", extra={"call": 0}),
        turn(second, says("tool", "R1", tool_call_id="call_x"), extra={"call": 1}),
        turn(third, says("tool", "R2", tool_call_id="call_y"), extra={"call": 0}),
    )
    return {"native": native, "served": served}


def called(place, name, arguments):
    return {"id": f"call{place:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


EXPECTED = [
    says("system", "Be brief."),
    says("user", "Find it."),
    says("assistant", "<think>a</think>", tool_calls=[called(0, *SEARCH), called(1, *CUP)]),
    says("tool", "R1", tool_call_id="call00000", name="search"),
    says("tool", "R2", tool_call_id="call00001", name="submit"),
    says("assistant", "", tool_calls=[called(2, "submit", {"answer": ""})]),
]


@pytest.mark.parametrize("kind", ["native", "served"])
def test_the_calls_of_a_reply_are_one_message_of_mappings(kind):
    assert conversations(two_calls()[kind], TOOLS) == [EXPECTED]


def test_a_gateways_reply_and_the_results_that_its_client_sends():
    one = episode(
        turn(hermes(SEARCH, CUP), says("user", "q"), text=hermes(SEARCH, CUP)),
        turn("ok", says("tool", "R2", tool_call_id="call00017"), says("tool", "R1", tool_call_id="call00016"), text="ok"),
    )
    conversation = conversations(one, None)[0]
    assert conversation[1]["tool_calls"] == [called(0, *SEARCH), called(1, *CUP)]
    assert [(m["content"], m["name"]) for m in conversation[2:4]] == [("R1", "search"), ("R2", "submit")]
    arguments = json.dumps(CUP[1])
    past = says("assistant", "", calls=[{"id": "x", "name": "submit", "arguments": arguments}])  # a past told anew
    anew = episode(turn("ok", says("user", "q"), past, says("tool", "R", tool_call_id="x"), says("user", "?"), text="ok"))
    expected = [says("user", "q"), says("assistant", "", tool_calls=[called(0, *CUP)])]
    expected += [says("tool", "R", tool_call_id="call00000", name="submit"), says("user", "?"), says("assistant", "ok")]
    assert conversations(anew, None) == [expected]


def test_calls_that_cannot_be_read_or_have_no_turn():
    bad = "<tool_call>\n{'name': 1}\n</tool_call>"
    one = episode(
        turn(action(*SEARCH), says("user", "q"), text=hermes(SEARCH)),
        turn(bad, says("tool", "R1"), text=bad),
        turn(action(*CUP), says("tool", "not JSON"), says("tool", NOT_EXECUTED), text=hermes(CUP)),
        turn("done", says("tool", "R2"), says("tool", NOT_EXECUTED), text="done"),
    )
    contents = [(m["role"], m["content"]) for m in conversations(one, TOOLS)[0]]
    assert contents == [
        *(("user", "q"), ("assistant", ""), ("tool", "R1"), ("assistant", bad), ("user", "not JSON")),
        *(("user", NOT_EXECUTED), ("assistant", ""), ("tool", "R2"), ("assistant", "done")),
    ]


def test_text_agents_keep_their_own_words():
    for text in ('submit["x"]', hermes(CUP), '{"name": "submit", "arguments": {"answer": "1"}}'):
        one = episode(turn(text, says("user", "q"), text=text), turn("b", says("user", "no"), text="b"))
        assert conversations(one, TOOLS)[0][1] == says("assistant", text)


@pytest.mark.parametrize("name", SOURCES)
def test_every_family_comes_back_typed(name):
    """What an agent sampled in its family's form, several calls and commands included."""
    agent = agent_for(name)
    for tools, calls in ((TOOLS, [SEARCH, CUP]), ({}, [("act", {"command": "</tool_call> go"})])):
        talk = agent.begin(Task(), tools)
        prompt = talk.prompt("Find it.", {})
        text = "".join(call_text(talk, call) for call in calls[:1]) if name.startswith("llama") else call_text(talk, *calls)
        ids = [*talk.template.encoder.encode([text]), talk.template.stop_ids[0]]
        turns = [talk.turn("Find it.", Completion(ids, [0.0] * len(ids), "stop"))]
        turns += talk._waiting
        for number, one in enumerate(turns):
            one.messages = [says("user", "Find it.")] if not number else [says("tool", "R")]
            one.prompt_ids = one.prompt_ids or prompt
        (conversation,) = conversations(
            episode(*turns, turn("x", says("tool", "R"), text="x", prompt_ids=[*prompt, *ids, 0])), tools
        )
        expected = [called(place, *call) for place, call in enumerate(calls[: 1 if name.startswith("llama") else None])]
        assert [m["tool_calls"] for m in conversation if "tool_calls" in m] == [expected], conversation
        assert [m["role"] for m in conversation] == ["user", "assistant", *["tool"] * len(expected), "assistant"]


def through_a_file(rows, folder):
    datasets = pytest.importorskip("datasets", reason="the extra `train` is not installed")
    write_parquet(folder / "x.parquet", rows)
    table = datasets.load_dataset(
        "parquet", data_files=str(folder / "x.parquet"), split="train", cache_dir=str(folder / "cache")
    )
    return list(table)


def test_a_table_gives_every_row_its_own_arguments_and_nothing_else(tmp_path):
    """In a column of structs each call would have the arguments of all tools, as None."""
    plain = episode(turn("go", says("user", "q"), text="go"))
    wide = episode(
        turn(action("f", {"deep": {"a": [1, None, {}]}, "n": 2**64, "x": 0.5}), says("user", "q"), extra={"call": 0})
    )
    episodes = [*two_calls().values(), plain, wide]
    rows = Rows(lambda env: TOOLS).sft(episodes, tokens=False)
    back = through_a_file(rows, tmp_path)
    assert [row["messages"] for row in back] == [row["messages"] for row in rows]
    assert back[0]["messages"] == EXPECTED
    assert back[2]["messages"] == [says("user", "q"), says("assistant", "go")] and back[2]["tools"] is None
    assert back[3]["messages"][1]["tool_calls"][0]["function"]["arguments"] == {
        "deep": {"a": [1, None, {}]},
        "n": "18446744073709551616",  # datasets 5.2.0 reads no longer integers
        "x": 0.5,
    }
    assert json.loads(back[0]["tools"]) == [tool.schema() for tool in TOOLS.values()]
    whole = through_a_file(Rows(lambda env: TOOLS).episodes(episodes), tmp_path)
    assert [Episode.from_json(row["episode"]) for row in whole] == episodes
    assert whole[0]["messages"] == EXPECTED


def test_pairs_and_grpo_rows_are_mappings_too(tmp_path):
    good, bad = two_calls()["native"], two_calls()["native"]
    bad.reward, bad.attempt = 0.0, 1
    (pair,) = through_a_file(Rows(lambda env: TOOLS).dpo([good, bad]), tmp_path)
    assert pair["prompt"] + pair["chosen"] == EXPECTED and pair["chosen"] == pair["rejected"]
    for one in (good, bad):
        for each in one.turns:
            each.extra["advantage"], each.logprobs = 0.5, [-1.0]
    row = through_a_file(Rows(lambda env: TOOLS).grpo([good, bad], None), tmp_path)[0]
    assert row["prompt"] + row["completion"] == EXPECTED


def render(template, messages, tools=None):
    from transformers.utils.chat_template_utils import render_jinja_template

    schemas = [tool.schema() for tool in (tools or TOOLS).values()]
    return render_jinja_template([messages], tools=schemas, chat_template=template, bos_token="<b>", eos_token="<e>")[0][0]


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - set(NO_CALLS)))
def test_templates_write_each_argument_once(name, tmp_path):
    """Every template of the wheel that takes calls; JSON text would be encoded twice, or refused."""
    (row,) = through_a_file(Rows(lambda env: TOOLS).sft([two_calls()["native"]], tokens=False), tmp_path)
    messages = row["messages"]
    if name in ONE_CALL:
        reply = {**messages[2], "tool_calls": messages[2]["tool_calls"][:1]}
        messages = [*messages[:2], reply, messages[3], *messages[5:]]
    rendered = render(TEMPLATES[name], messages)
    answer = rendered.partition("Find it.")[2]
    for text, count in {"cup": 1, "R1": 1, "007": name not in ONE_CALL, "R2": name not in ONE_CALL}.items():
        assert answer.count(text) == count, answer
    assert '\\\\"' not in answer and '{\\"' not in answer and "None" not in answer, answer


@pytest.mark.long
def test_trls_trainer_gets_the_template_of_the_calls(tmp_path):
    """The tokens that `SFTTrainer` makes of the table are those of the conversation."""
    trl = pytest.importorskip("trl", reason="the extra `train` is not installed")
    import datasets
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = survey().tokenizer_for(TEMPLATES["qwen3_training"])
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes))
    rows = Rows(lambda env: TOOLS).sft([two_calls()["native"]], tokens=False)
    through_a_file(rows, tmp_path)
    table = datasets.load_dataset("parquet", data_files=str(tmp_path / "x.parquet"), split="train", cache_dir=str(tmp_path))
    arguments = trl.SFTConfig(output_dir=str(tmp_path / "o"), max_length=None, report_to=[], use_cpu=True)
    trainer = trl.SFTTrainer(model, args=arguments, train_dataset=table, processing_class=tokenizer)
    expected = tokenizer.apply_chat_template(EXPECTED, tools=[tool.schema() for tool in TOOLS.values()], tokenize=False)
    assert tokenizer.decode(trainer.train_dataset[0]["input_ids"]) == expected


@pytest.mark.parametrize("name", NO_CALLS)
def test_templates_without_calls(name):
    try:
        rendered = render(TEMPLATES[name], EXPECTED)
    except Exception:
        assert NO_CALLS[name] != "drops calls"
        return
    assert NO_CALLS[name] == "drops calls" and "cup" not in rendered


@pytest.mark.parametrize("name", ONE_CALL)
def test_templates_of_one_call(name):
    try:
        rendered = render(TEMPLATES[name], EXPECTED)
    except Exception as error:
        assert ONE_CALL[name] == "raises at several calls" and "single tool-calls" in str(error)
        return
    assert ONE_CALL[name] == "writes the first of several calls" and "cup" in rendered and "007" not in rendered
