"""A customer played by a model: more lifelike, but its consent cannot be verified."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agentgym.core.outcome import Finish
from agentgym.engines import ChatEngine, Completion, Sampling, engine
from agentgym.envs.desk.domain import Domain, cents
from agentgym.errors import BadConfig, Fault, Reason

WHY = "the customer is played by a model: what it says is not repeatable, and what it agrees to is not verified"
MOST_TOKENS = 200
SYSTEM = """\
You are a customer of {company} who talks to its service desk. Play the customer, never the desk.
Say one or two short sentences at a time, as a person would. Tell only what you are asked for; volunteer nothing.
What you do not find below you do not know, and you invent nothing. When the desk asks whether there is anything else, \
raise your next matter, or say that this is all.

You are {name}, born on {birth_date}; your ZIP code is {zip_code}.
{matters}"""


class ModelUser:
    """A customer played by a chat engine; `engine` is a `ChatEngine` or its name, such as `chat:URL#MODEL`."""

    def __init__(self, model_user: object) -> None:
        if isinstance(model_user, str) and not model_user.startswith("chat:"):
            raise BadConfig(
                f"user of Desk is {model_user!r}; expected 'chat:URL#MODEL', a ChatEngine, or '' for the scripted user"
            )
        self._engine: ChatEngine = engine(model_user) if isinstance(model_user, str) else model_user  # type: ignore[assignment]
        self._thread: ThreadPoolExecutor | None = None
        self._runner = asyncio.Runner()

    def reply(self, system: str, talk: Sequence[tuple[str, str]], seed: int) -> str:
        """Return the customer's next words, or "…"; `talk` lists (speaker, text), with speaker `desk` or `customer`.

        Raises:
            Fault: the engine fails.
        """
        names = {"desk": "user", "customer": "assistant"}
        messages: list[dict[str, object]] = [
            {"role": "system", "content": system},
            *({"role": names[who], "content": text} for who, text in talk),
        ]
        sampling = Sampling(temperature=0.0, max_tokens=MOST_TOKENS, seed=seed)

        async def ask() -> Completion:
            return await self._engine.chat(messages, (), sampling, f"desk customer {seed}")

        if self._thread is None:  # the caller's thread may run an event loop already
            self._thread, self._runner = ThreadPoolExecutor(1), asyncio.Runner()
        done = self._thread.submit(lambda: self._runner.run(ask())).result()
        if done.finish in (Finish.CONTEXT, Finish.ABORT):
            raise Fault(f"the model that plays the customer ended with {done.finish}", reason=Reason.ENGINE)
        return " ".join((done.text or "").split()) or "…"

    def check(self) -> None:
        """Ask the model for one sentence; raise Fault if the engine fails."""
        self.reply("You are a customer at a desk. Say what you want in one sentence.", [("desk", "How can I help?")], 0)

    def close(self) -> None:
        """Stop the thread with its event loop and connections; a later reply starts a new one."""
        if self._thread is not None:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()
            self._thread = None


def briefing(domain: type[Domain], data: Mapping[str, Any]) -> str:
    """Return the system prompt that describes the customer to the model."""
    return SYSTEM.format(
        company=domain.company, matters="\n".join(_matter(domain, matter) for matter in data["matters"]), **data["who"]
    )


def _matter(domain: type[Domain], matter: Mapping[str, Any]) -> str:
    intent = domain.intents[matter["intent"]]
    lines = [
        f"Matter: {intent.openings[matter['wording']]}",
        matter["hint"] or f"The {domain.noun} is {matter['ref']}.",
        *(topic.answer.format(matter["details"][name]) for name, topic in intent.topics.items()),
    ]
    if matter["most"] is not None:
        lines.append(f"If it costs more than {cents(matter['most'])}, leave everything as it is.")
    return " ".join(lines)
