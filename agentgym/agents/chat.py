"""The agent with full history: the whole episode is one conversation, in exactly the tokens that were sampled."""

import re
from collections.abc import Mapping, Sequence
from typing import Unpack

from agentgym.agents.decide import NATIVE, NATIVE_PROMPT, TEXT
from agentgym.agents.encode import hide
from agentgym.agents.native import NativeConversation, offered
from agentgym.agents.prompt import Prompt, load_prompt
from agentgym.agents.template import ChatTemplate
from agentgym.agents.token_agent import AgentOptions, TokenAgent, TokenConversation
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.actions import Tool, key
from agentgym.core.env import Task
from agentgym.engines import Completion, TokenEngine
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig, no_such

HISTORY = ("keep", "template")
_THOUGHT = re.compile(r"(</?think>)")


class ChatAgent(TokenAgent):
    """Full history: the next prompt is all earlier tokens, plus the chat template's bridge around the new observation.

    With `history="keep"`, sampled tokens stay in the prompt, including thoughts. With `history="template"`, the prompt
    is the chat template's rendering, and a new row begins whenever the template rewrites the past (counted in
    `conversation.rewrites`).

    With `tools="native"`, calls have the model's own form, detected from the template; the name of a family
    (`"hermes"`, `"llama3"`, …) selects the form of that family. With `tools="text"`, calls are text, in the spellings
    of the environment. `tools="auto"` is native if possible, see `decide`.
    """

    def __init__(
        self, engine: TokenEngine, tokenizer: object = None, *, history: str = "keep", **options: Unpack[AgentOptions]
    ) -> None:
        if history not in HISTORY:
            raise BadConfig(no_such("history", history, HISTORY))
        self.history = history
        super().__init__(engine, tokenizer, **options)

    def become(self, prompt: Prompt, tools: str) -> None:
        """Switch to a prompt and a tool format (`text`, `native` or a family).

        Raises:
            BadConfig: the format is not `text`, and the history or the prompt does not allow native tool calls.
        """
        if tools != TEXT:
            self._check_native(prompt, tools)
        super().become(prompt, tools)

    def _native_refusal(self, tools: Mapping[str, Tool]) -> BadConfig | None:
        try:
            self._variant(self.custom_prompt or load_prompt(NATIVE_PROMPT), NATIVE).tool_template(tools)
        except BadConfig as error:
            return error
        return None

    def _check_native(self, prompt: Prompt, tools: str) -> None:
        """Check the settings that native tool calls need.

        Raises:
            BadConfig: the history is not `keep`, or the prompt asks for a reply that is not a call.
        """
        if self.history != "keep":
            raise BadConfig(f"history is {self.history!r}: native tool calls are kept as sampled; use history='keep'")
        if prompt.reply.kind != "call":
            raise BadConfig(
                f"prompt {prompt.name!r} asks for a reply of the form {prompt.reply.kind!r}, and tools="
                f"{tools!r} for tool calls: use prompt='tools', or your own prompt with [reply] call"
            )

    def make_template(self, options: Mapping[str, object] | None) -> ChatTemplate:
        """Return the chat template for prompts; a native one already contains a tool, since some (Hermes) require one."""
        if self.tools == TEXT:
            return super().make_template(options)
        self._options = options
        self._tool_templates: dict[str, ToolTemplate] = {}
        return self.tool_template({})

    def tool_template(self, tools: Mapping[str, Tool]) -> ToolTemplate:
        """Return the chat template with an environment's tools; each set of tools is rendered only once."""
        tool_set = offered(tools)
        name = key(tool_set)
        if name not in self._tool_templates:
            family = None if self.tools == "native" else self.tools
            encoder = self.template.encoder if self._tool_templates else None
            self._tool_templates[name] = ToolTemplate(
                self.tokenizer, self._options, tool_set, family=family, encoder=encoder
            )
        return self._tool_templates[name]

    def talk(self, task: Task, tools: Mapping[str, Tool]) -> TokenConversation:
        """Start a conversation without first adapting the agent to the environment."""
        if self.tools != TEXT:
            return NativeConversation(self, task, tools, self.tool_template(tools))
        return (ChatConversation if self.history == "keep" else RenderedConversation)(self, task, tools)


class ChatConversation(TokenConversation):
    """A conversation whose stored tokens are extended, never encoded again."""

    def __init__(self, agent: TokenAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, tools)
        self.history_ids: list[int] = []
        """All tokens so far: prompts and replies."""
        self.ended = True
        """True if the last reply ended with its own stop token."""
        self.rewrites: int = 0
        """Number of prompts that did not extend the stored tokens, because the template rewrote the past."""

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return all stored tokens plus the bridge around the new observation; at the first turn, the opening."""
        form, template, values = self.agent.prompt, self.agent.template, self.values(observation, info)
        if not self.turns:
            self.first_observation = observation
            return self.opened(template, form.opening(values))
        pieces = form.later(values)
        self.messages = [{"role": template.role, "content": "".join(pieces)}]
        self.prompt_ids = self.history_ids + template.bridge(pieces, self.ended)
        return self.prompt_ids

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        action = super().reply(completion)
        self.history_ids = self.prompt_ids + completion.ids
        self.ended = self.agent.template.ended(completion.ids)
        return action


class RenderedConversation(ChatConversation):
    """A conversation as the chat template renders it; stored tokens are reused as far as they are unchanged."""

    def __init__(self, agent: ChatAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, tools)
        self.chat: list[tuple[str, str]] = []  # (role, content with marks), replies included
        self.cores: list[str] = []  # the texts behind the marks
        self._plain_opening: list[tuple[str, str]] = []  # how the chat begins without the hint, with the same marks
        self._rendered: tuple[list[tuple[str, str]], list[str], str, bool] = ([], [], "", False)
        self._expected = ""  # the last rendering plus the reply; the next rendering must begin with it

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return the stored tokens plus the template's continuation; if the past was rewritten, encode everything again.

        Raises:
            BadConfig: the template refuses the model's own reply.
        """
        template, form, values = self.agent.template, self.agent.prompt, self.values(observation, info)
        first = super().prompt(observation, info)
        cores = list(self.cores)
        if not self.turns:
            opening = form.opening(values)
            plain = template.opening(hide(opening.system, cores), hide(opening.user, cores))
            cores = list(self.cores)
            opening = self.with_hint(opening)  # a hint comes last, so that the marks before it are the same
            chat = template.opening(hide(opening.system, cores), hide(opening.user, cores))
            self._plain_opening = plain
            self._rendered = (chat, cores, template.render(chat), False)
            return first
        added, count = form.later(values), len(cores)
        chat = [*self.chat, (template.role, hide(added, cores))]
        cores[count:] = template.escaped(cores[count:])
        try:
            text = template.render(chat)
        except Exception as error:  # whatever the template's author or jinja raise
            raise BadConfig(f"the chat template refuses the model's own reply ({error}): use history='keep'") from error
        rewritten = not text.startswith(self._expected)
        self._rendered = (chat, cores, text, rewritten)
        if rewritten:
            self.prompt_ids = template.encoder.compile(text).fill(cores)
            if self.hint is not None:
                plain = template.render([*self._plain_opening, *chat[len(self._plain_opening) :]])
                self._opened = len(self.prompt_ids), template.encoder.compile(plain).fill(cores)
        else:
            end, rest = template.split(text[len(self._expected) :])
            self.prompt_ids = [*self.history_ids, *(() if self.ended else end), *rest.fill(cores)]
        return self.prompt_ids

    def turn(self, observation: str, completion: Completion) -> Turn:
        """Return the turn for a completion; `extra["rewritten"]` is True if its prompt began a new row."""
        rewrites = self.rewrites
        turn = super().turn(observation, completion)
        turn.extra = {"rewritten": True} if self.rewrites > rewrites else {}
        return turn

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        action = super().reply(completion)
        chat, cores, text, rewritten = self._rendered
        template = self.agent.template
        self.cores = list(cores)
        pieces = template.encoder.pieces(self.said_ids)
        if "</think>" not in template.encoder.control:
            pieces = _with_thoughts_shown(pieces)
        rest = _without(template.prefix, pieces) if template.prefix else None
        if rest is None:
            hidden = hide(pieces, self.cores)
            content, self._expected = template.opened + hidden, text + hidden
        else:  # the template writes the prefix itself
            content = hide(rest, self.cores)
            self._expected = text + template.prefix + content
        self.chat = [*chat, ("assistant", content)]
        self.rewrites += rewritten
        return action


def _with_thoughts_shown(pieces: Sequence[str]) -> list[str]:
    """Make `<think>` and `</think>` trusted text, so that the template finds them; for models without such tokens."""
    parts: list[str] = []
    for piece in pieces:
        kind = type(piece)
        for place, part in enumerate(_THOUGHT.split(piece)):
            parts.append(part if place % 2 else kind(part))
    return parts


def _without(prefix: str, pieces: Sequence[str]) -> list[str] | None:
    """Return the pieces without a prefix that the template itself writes; None if the pieces begin with another text."""
    for place, piece in enumerate(pieces):
        if piece.startswith(prefix):
            return [type(piece)(piece[len(prefix) :]), *pieces[place + 1 :]]
        if not prefix.startswith(piece):
            break
        prefix = prefix[len(piece) :]
    return None
