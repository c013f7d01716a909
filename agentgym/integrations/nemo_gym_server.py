"""An agentgym environment as a resources server of NeMo Gym (0.7), for NeMo Gym's `gymnasium_agent`.

class Packaged(AgentgymServer):                  # in app.py of a folder below resources_servers/
    env: str = "rlvr/SQL-v0"                     # `agentgym package ID --for nemo_gym --out FOLDER` writes the folder
"""

# nemo_gym is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportIncompatibleMethodOverride=false

import asyncio
from typing import Any

from fastapi import HTTPException
from resources_servers.gymnasium import GymnasiumServer, extract_text

from agentgym.integrations.conversation import Conversation
from agentgym.rollout.session import Session


class AgentgymServer(GymnasiumServer):
    """One agentgym environment; each row gives the task (`task_id`) and the seed (`seed`) of an episode."""

    env: str
    options: dict[str, Any] = {}  # noqa: RUF012  # pydantic copies it

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; return our prompt, with the first observation in it, and an empty info."""
        await self.close_session(session_id)
        talk = await asyncio.to_thread(lambda: Conversation(Session(self.env, **self.options)))
        self.session_state[session_id] = talk
        system, user = await asyncio.to_thread(talk.begin, metadata.get("task_id"), int(metadata.get("seed") or 0))
        _sound(talk)
        return "\n\n".join(text for text in (system, user) if text), {}

    async def step(
        self, action: Any, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Carry out the action in a reply and return what `Env.step` returns; the observation is None at the end.

        Raises:
            HTTPException: 409 if no episode is open.
        """
        talk: Conversation | None = self.session_state.get(session_id)
        if talk is None:
            raise HTTPException(409, "no episode of this session is open: reset first")
        seen, reward = await asyncio.to_thread(talk.reply, extract_text(action))
        _sound(talk)
        session = talk.session
        outcome = {"reason": session.reason, "success": session.success, "valid": session.info["valid"]}
        truncated = session.done and session.reason in ("horizon", "context")
        return seen, reward, session.done and not truncated, truncated, outcome

    def _cleanup_session(self, session_id: str | None) -> None:
        talk: Conversation | None = self.session_state.pop(session_id, None)
        if talk is not None:
            talk.session.close()


def _sound(talk: Conversation) -> None:
    """Turn an infrastructure error into an HTTP error, so that it does not become a reward.

    Raises:
        HTTPException: 500 if the episode ended with an infrastructure error.
    """
    if talk.session.done and talk.session.success is None:
        raise HTTPException(500, f"infrastructure error: {talk.session.reason}")
