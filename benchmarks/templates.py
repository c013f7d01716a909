"""Every chat template that TRL ships, put through the agents' bridge; writes the table of results/templates.md.

Run `python benchmarks/templates.py` to write the table, `--check` to fail where it is out of date. The templates come
without tokenizers, so each gets a small byte-level one whose added tokens are the control strings it mentions.
"""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import Task
from agentgym.agents import ChatAgent
from agentgym.agents.encode import UntrustedText
from agentgym.agents.template import ChatTemplate
from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Tool
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig

PAGE = Path(__file__).parent.parent / "results" / "templates.md"
_CONTROL = re.compile(r"<\|[A-Za-z_0-9]+\|?>|<[A-Za-z_0-9]+\|>|<｜[^<>｜]+｜>|</?[a-z_]+>|\[/?[A-Za-z_]+\]")
_NOT_CONTROL = re.compile(r"\[[a-z_]+\]|</?(function|parameter|name|description|type|tools?|parameters|required|[a-rt-z])>")
_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ROUNDS = (
    ("You are in the middle of a room.\n\nYour task is to: heat some egg and put it in diningtable.", "go to fridge 1"),
    ("The fridge 1 is closed.", "open fridge 1"),
    ("You open the fridge 1. In it, you see a egg 1,\nand a cup 2.", "take egg 1 from fridge 1"),
    ('You pick up the "egg 1".', "inventory"),
)
THOUGHT = "The egg may be cold."


@dataclass(frozen=True)
class Row:
    """What the bridge makes of one template."""

    name: str
    role: str = ""
    system: bool = False
    opened: str = ""
    ends: str = ""
    plain: str = ""
    thoughts: str = ""
    calls: str = ""
    problem: str = ""


def templates() -> dict[str, str]:
    """Return the source of each template of the installed TRL, by name."""
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))}


def tokenizer_for(template: str) -> Any:
    """Return a byte-level BPE tokenizer with the template, and the control strings that it mentions as added tokens."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(_PATTERN), behavior="isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(["".join(observation for observation, _ in ROUNDS) * 9, template], trainer)
    strings = {s for s in _CONTROL.findall(template) if not _NOT_CONTROL.fullmatch(s)} | {"<bos>", "<eos>"}
    plain_looking = [s for s in sorted(strings) if re.fullmatch(r"</?[a-z_]+>", s)]  # added but not special, as in Qwen
    backend.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in sorted(strings - {*plain_looking})])
    backend.add_tokens([AddedToken(s, special=False, normalized=False) for s in plain_looking])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>")
    tokenizer.chat_template = template
    return tokenizer


def survey(name: str, source: str) -> Row:
    """Play a short conversation over one template and compare the bridge with the template's own rendering."""
    tokenizer = tokenizer_for(source)
    try:
        template = ChatAgent(ScriptedEngine([]), tokenizer, prompt="act").template
    except BadConfig as error:
        return Row(name, problem=str(error))
    keeps_control_tokens_out(template)
    ends = ", ".join(tokenizer.convert_ids_to_tokens(i) for i in template.stop_ids if i != tokenizer.eos_token_id)
    return Row(
        name,
        template.role,
        template.system,
        template.opened.strip(),
        ends,
        compare(tokenizer, ""),
        compare(tokenizer, THOUGHT),
        calls(tokenizer),
    )


def calls(tokenizer: Any) -> str:
    """Return the family of the template's tool calls; empty where `tools="native"` refuses the template."""
    tools = {"find": Tool("find", "Find it.", {"properties": {"q": {"type": "string"}, "k": {"type": "integer"}}})}
    try:
        template = ChatAgent(ScriptedEngine([]), tokenizer, tools="native").tool_template(tools)
    except BadConfig:
        return ""
    return next(name for name, family in FAMILIES.items() if family is template.family)


def keeps_control_tokens_out(template: ChatTemplate) -> None:
    """Raise AssertionError where a control string in a first message or an observation becomes its token."""
    encoder = template.encoder
    strings = sorted(encoder.control)
    nested = "".join(s[:1] + s + s[1:] for s in strings)

    def controls(text: str) -> list[list[int]]:
        made = template.start(["Be brief."], [UntrustedText(text)]), template.bridge([UntrustedText(text)], ended=False)
        return [[i for i in ids if i in encoder.control_ids] for ids in made]

    for text in (*strings, "".join(strings), nested):
        if controls(text) != controls("cup"):
            raise AssertionError(f"{text!r} from the environment becomes a control token")


def compare(tokenizer: Any, thought: str) -> str:
    """Return what becomes of the past: `extends` or `new row`.

    Raises AssertionError wherever the agents' tokens differ from the tokenizer's on the template's own rendering.
    """
    agent = ChatAgent(ScriptedEngine([]), tokenizer, prompt="act")
    rendered = ChatAgent(ScriptedEngine([]), tokenizer, prompt="act", history="template")
    talk, other = agent.begin(Task(), {}), rendered.begin(Task(), {})
    messages: list[tuple[str, str]] = []
    verdict = "extends"
    for observation, action in ROUNDS:
        prompt = talk.prompt(observation, {})
        messages += added(talk.messages, agent.template.system)
        own = tokenizer.encode(agent.template.render(messages), add_special_tokens=False)
        same("history='template'", tokenizer, with_end(other.prompt(observation, {}), agent), own)
        if talk.turns:
            bridge = agent.template.bridge([observation], ended=False)
            same("the bridge", tokenizer, bridge, own[-len(bridge) :])
        if verdict == "extends" and other.prompt_ids[: len(other.history_ids)] != other.history_ids:
            verdict = "new row"
        if verdict != "new row":
            same("what is held and the bridge", tokenizer, with_end(prompt, agent), own)
        full_reply = f"<think>\n{thought}\n</think>\n\n{action}" if thought else action
        reply, content = own_reply(agent, tokenizer, messages, full_reply, (thought, action))
        messages.append(("assistant", content))
        for each in (talk, other):
            each.reply(Completion(reply, [0.0] * len(reply), "stop"))
    return verdict


def added(messages: list[dict[str, Any]], system: bool) -> list[tuple[str, str]]:
    """Return a turn's messages as the template takes them: a system message it does not know opens the user's."""
    pairs = [(m["role"], m["content"]) for m in messages]
    if len(pairs) == 2 and not system:
        return [("user", f"{pairs[0][1]}\n\n{pairs[1][1]}")]
    return pairs


def with_end(ids: list[int], agent: ChatAgent) -> list[int]:
    """Return ids with the stop token a model samples put back to what the template writes in its place (gpt-oss)."""
    template = agent.template
    stop, end = template.stop_ids[0], template.end_ids[-1]
    return ids if stop == end or end in template.stop_ids else [end if i == stop else i for i in ids]


def own_reply(
    agent: ChatAgent, tokenizer: Any, messages: list[tuple[str, str]], reply: str, parts: tuple[str, str]
) -> tuple[list[int], str]:
    """Return what a model of this family would sample to say it (as the template writes a last reply), and the content."""
    template = agent.template
    before = template.render(messages)
    full = template.render([*messages, ("assistant", reply)], generate=False)
    written = full[len(before) :] if full.startswith(before) else ""
    if all(part in written for part in parts):
        text = written.rpartition(parts[1])[0] + parts[1]
    elif template.opened:
        text = reply.removeprefix("<think>\n") if reply.startswith("<think>") else f"</think>\n\n{reply}"
    else:
        text = reply
    end = template.end_ids[-1] if template.end_ids[-1] in template.stop_ids else template.stop_ids[0]
    content = template.opened + text
    if template.prefix and text.startswith(template.prefix):
        content = text.removeprefix(template.prefix)
    return [*tokenizer.encode(text, add_special_tokens=False), end], content


def same(what: str, tokenizer: Any, ours: list[int], theirs: list[int]) -> None:
    """Raise AssertionError with the place where two token lists part."""
    if ours != theirs:
        pairs = enumerate(zip(ours, theirs, strict=False))
        at = next((i for i, pair in pairs if pair[0] != pair[1]), min(len(ours), len(theirs)))
        excerpts = [repr(tokenizer.decode(ids[max(at - 5, 0) : at + 12])) for ids in (ours, theirs)]
        raise AssertionError(f"{what}: {excerpts[0]}; the template: {excerpts[1]}")


INTRODUCTION = """# Chat templates

Every chat template in the wheel of TRL {version}, run through the agents' bridge by `python benchmarks/templates.py`. In all
of them the agents' tokens are those of the template's own rendering, and no control string that the environment writes
becomes its token.

| column | meaning |
|---|---|
| observations | the role of observations: `tool` if the template allows it after a plain reply |
| system | `no`: the system prompt opens the first user message |
| opens | what the generation prompt opens; it belongs to the prompt |
| ends with | the token that ends a turn, in addition to the tokenizer's `eos` |
| plain replies, with thoughts | `extends`: the template keeps earlier replies. `new row`: it rewrites them |
| tool calls | the format of [native calls](../docs/guides/agents.md#native-tool-calls); empty if they refuse it |

With `extends`, `history="keep"` and `history="template"` agree. With `new row`, `history="template"` starts a new row of
tokens each time. Unsupported templates, which cannot be continued: {unsupported}.

gpt-oss: `history="keep"` keeps the analysis channel. Its template refuses to take it back, so `history="template"` is an
error. Kept turns end with the sampled `<|return|>`, while its template writes `<|end|>`.

"""


def page(rows: list[Row]) -> str:
    """Return the text of results/templates.md."""
    import trl

    head = ("template", "observations", "system", "opens", "ends with", "plain replies", "with thoughts", "tool calls")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        if row.problem:
            lines.append(f"| `{row.name}` | unsupported: {row.problem} |" + " |" * (len(head) - 2))
            continue
        ends = " ".join(f"`{end.replace('|', chr(92) + '|')}`" for end in row.ends.split(", ") if end)
        opened = f"`{row.opened}`" if row.opened else ""
        system = "yes" if row.system else "no"
        lines.append(
            f"| `{row.name}` | {row.role} | {system} | {opened} | {ends} | {row.plain} | {row.thoughts} | {row.calls} |"
        )
    unsupported = sum(bool(row.problem) for row in rows) or "none"
    return INTRODUCTION.format(version=trl.__version__, unsupported=unsupported) + "\n".join(lines) + "\n"


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where results/templates.md is out of date; write nothing")
    text = page([survey(name, source) for name, source in templates().items()])
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit("results/templates.md is out of date: run `python benchmarks/templates.py`")


if __name__ == "__main__":
    main()
