"""An episode as messages of a chat, for harnesses that store the messages themselves."""

from typing import Any

from agentgym.agents.fields import field_values
from agentgym.agents.prompt import load_prompt
from agentgym.rollout.session import Session


class Conversation:
    """A session that formats observations as chat messages and parses actions from replies."""

    def __init__(self, session: Session, prompt: str = "") -> None:
        """Wrap a session, which the caller closes.

        `prompt` names one of our prompts; if empty, it is `react-tools` for an environment with tools, otherwise `react`.
        """
        self.session = session
        self.form = load_prompt(prompt or ("react-tools" if session.env.tools else "react"))
        self.turns = 0

    def begin(self, task: str | None, seed: int) -> tuple[str, str]:
        """Start an episode; return the system message, which may be empty, and the first user message."""
        self.turns = 0
        values = self._values(self.session.reset(task, seed=seed))
        return "".join(self.form.system.fill(values)), "".join(self.form.first.fill(values))

    def reply(self, text: str) -> tuple[str | None, float]:
        """Carry out the action in a reply; return the next user message (None at the end) and the turn's reward."""
        action, _ = self.form.reply.parse(text, self.session.env.tools)
        before, self.turns = self.session.reward, self.turns + 1
        seen = self.session.act(action)
        message = None if self.session.done else "".join(self.form.later(self._values(seen)))
        return message, self.session.reward - before

    def _values(self, seen: str) -> dict[str, Any]:
        def task() -> str:
            return self.session.task.instruction or seen

        tools = self.session.env.tools
        return field_values(lambda text: text, seen, self.session.info, task=task, tools=tools, turns=self.turns)
