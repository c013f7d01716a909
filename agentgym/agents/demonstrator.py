"""Demonstrations in the exact tokens of an agent: the expert chooses actions, and the agent's conversation encodes them."""

from collections.abc import Mapping, Sequence

from agentgym.agents.base import RemoteStepping
from agentgym.agents.encode import UntrustedText
from agentgym.agents.policies import ExpertConversation, Noise, silent
from agentgym.agents.token_agent import TokenAgent, TokenConversation
from agentgym.core.actions import Tool
from agentgym.core.env import Task, TextEnv
from agentgym.core.outcome import Finish
from agentgym.engines import Completion
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig


class Demonstrator:
    """The environment's expert, with replies in the format of `agent`, so that rows of an SFT warm start look like rollouts.

    `agent` must be `demonstrable`, such as a `ChatAgent` or `WindowAgent`; the agent's engine is not used. If the
    prompt asks for a thought, the thought is the text `thought`, with the action in place of `{action}`. Turns have
    `prompt_ids`, `output_ids` (including the stop token), no log-probabilities, and `extra["train"]`.
    """

    engine = None

    def __init__(self, agent: TokenAgent, noise: Noise | None = None, *, thought: str = "") -> None:
        if not agent.demonstrable:
            raise BadConfig(f"{type(agent).__name__} has no expert to write its memory: demonstrate with ChatAgent")
        self.agent, self.noise = agent, noise or Noise()
        self.sampling = agent.sampling
        self._thought = thought
        if not agent.sampling.stop_ids:
            raise BadConfig("the tokenizer has no token that ends a turn: set tokenizer.eos_token")

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> "DemonstrationConversation":
        """Start the demonstration of one episode."""
        return DemonstrationConversation(self, self.agent.begin(task, tools), ExpertConversation(self.noise))

    def thought(self, agent: TokenAgent) -> list[str]:
        """Return the thought with its tags, split at each `{action}`; [""] if a reply of this agent has no thought."""
        opened = agent.template.opened
        if not (agent.prompt.reply.think or opened):
            return [""]
        return f"{'' if opened else '<think>'}{self._thought}</think>".split("{action}")

    def reply_ids(self, talk: TokenConversation, action: str) -> list[int]:
        """Return the tokens of a whole reply: the thought, if replies have one, the action, and the stop token."""
        first, *rest = self.thought(talk.agent)
        pieces = [first]
        for piece in rest:
            pieces += (UntrustedText(action), piece)
        return written_ids(talk, pieces, action)


def written_ids(talk: TokenConversation, thought: Sequence[str], action: str) -> list[int]:
    """Encode a reply that was not sampled: the pieces of its thought, the action, the stop token."""
    agent = talk.agent
    return [*agent.template.encoder.encode([*thought, *talk.written(action)]), agent.sampling.stop_ids[0]]


class DemonstrationConversation:
    """A conversation of one demonstrated episode."""

    def __init__(self, demonstrator: Demonstrator, talk: TokenConversation, expert: ExpertConversation) -> None:
        self._demonstrator, self.talk, self._expert = demonstrator, talk, expert

    async def take(
        self, observation: str, info: Mapping[str, object], *, env: TextEnv | RemoteStepping, seed: int, session: str
    ) -> Turn:
        """Answer an observation with the expert's action (or a mistake), encoded in the agent's format."""
        choice = await self._expert.choose(env, info, seed)
        if choice is None:
            return silent(observation)
        prompt = self.talk.prompt(observation, info)
        ids = self._demonstrator.reply_ids(self.talk, choice.action)
        limit = self._demonstrator.agent.context_tokens
        if limit is not None and len(prompt) + len(ids) > limit:
            return Turn(observation, prompt_ids=prompt, messages=self.talk.messages, parsed=False, finish=Finish.CONTEXT)
        turn = self.talk.turn(observation, Completion(ids, [], "stop"))
        turn.extra |= self._expert.extra(choice)
        return turn

    def fork(self) -> "DemonstrationConversation":
        """Return an independent copy."""
        return DemonstrationConversation(self._demonstrator, self.talk.fork(), self._expert.fork())
