"""Replay of a task's solution through a harness: an engine whose replies make the harness run the solution's commands."""

import shlex
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.actions import Call, Tool
from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig
from agentgym.harness.description import Harness

TITLE = "A title"
"""Reply to model calls outside the main conversation, which do not offer the shell tool."""
DONE = "Done."


class SolutionEngine(ScriptedEngine):
    """Engine that replies with the commands of a task's solution, one per reply; `tell` sets the commands.

    The harness's `[shell]` determines the format of the replies. Every token has probability 1. Raises BadConfig if the
    harness has no `[shell]`, or if it needs tool calls and the tokenizer's chat template has no format for them.
    """

    def __init__(self, harness: Harness, tokenizer: Any, context: int) -> None:
        super().__init__([], tokenizer, context=context, logprob=0.0)
        if not harness.shell:
            raise BadConfig(
                f"harness {harness.name!r} does not say how a reply runs a command, which a replay of solutions needs; "
                "add [shell] to its file (docs/guides/harnesses.md)"
            )
        self._shell = harness.shell
        self._left: dict[str, deque[str]] = {}
        tool = str(self._shell.get("tool", ""))
        self._template = ToolTemplate(tokenizer, None, {tool: Tool(tool, "", _PARAMETERS)}) if tool else None

    def tell(self, session: str, commands: Iterable[str]) -> None:
        """Set the commands of a session: those of its task, or of the next step of a task with several steps."""
        last = self._shell.get("end", "")
        self._left[session] = deque(
            [*(f"bash -c {shlex.quote(command)}" for command in commands), *([last] if last else [])]
        )

    def _reply(self, prompt_ids: Sequence[int], session: str, turn: int) -> str:
        left = self._left[session.partition("/")[0]]
        if self._template and f'"{self._shell["tool"]}"' not in self.tokenizer.decode(list(prompt_ids)):
            return TITLE
        head = "</think>\n\n" if self._template and self._template.opened else ""
        return head + (self._written(left.popleft()) if left else DONE)

    def _written(self, command: str) -> str:
        if self._template is None:
            return self._shell["text"].replace("{command}", command)
        arguments: dict[str, object] = {**self._shell.get("arguments", {}), self._shell["parameter"]: command}
        return "".join(self._template.family.write(Call(self._shell["tool"], arguments)))


_PARAMETERS: dict[str, object] = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
