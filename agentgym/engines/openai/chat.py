"""Models behind a chat API: messages in, text and tool calls out, no token ids. For evaluation only."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import cast

from agentgym.core.json_value import Object
from agentgym.core.provenance import is_secret
from agentgym.engines.model_names import KEY, provider_of
from agentgym.engines.openai.answers import bounded, characters, read_beginning, read_completion
from agentgym.engines.openai.client import BESIDE
from agentgym.engines.openai.http import Refused, ServedEngine, Servers
from agentgym.engines.openai.refusals import (
    ECHO,
    LIMITS,
    failed_call,
    first_request,
    named_parameter,
    results_refused,
    too_long,
    tools_refused,
    unknown_there,
)
from agentgym.engines.protocol import Completion, Sampling
from agentgym.errors import BadConfig

OMITTABLE = ("temperature", "top_p", "seed")
FIXED = ("model", "messages", "tools", "n", "stream", "system", *LIMITS)
"""Request fields that the engine sets itself, so the option `body` may not."""
MOST_ADAPTED = 8
"""Maximum number of adaptations to a server's refusals within one request."""


class OpenAIChatEngine(ServedEngine):
    """One model of an OpenAI-compatible server, called by `/chat/completions`.

    `target` is `URL#MODEL` or `PROVIDER/NAME`, such as `openai/NAME`. The API key is read from the environment variable
    `key_env` (default: the provider's, or AGENTGYM_API_KEY) and sent only in a header: `Authorization`, or the header
    named by `key_header`, such as Azure's `api-key`. `omit` is a comma-separated list of parameters that the
    server refuses (`temperature`, `top_p`, `seed`); `limit` is the server's parameter for the maximum tokens of a
    reply. `body` and `header` are added to every request. If the server refuses a parameter by name, the engine omits
    or renames that parameter, unless this would change the meaning of the request, and records the change in `adapted`.
    Without `#MODEL` the server must list exactly one model. The other options are those of `Servers`.
    """

    tokenizer = None
    """Always None, so a token agent refuses this engine."""
    path = "/chat/completions"
    kind: type[Servers] = Servers

    def __init__(
        self,
        target: str,
        *,
        key_env: str | None = None,
        key_header: str = "",
        omit: str = "",
        limit: str = "",
        body: Mapping[str, object] | None = None,
        header: Mapping[str, object] | None = None,
        retries: int = 6,
        backoff: float = 0.5,
        timeout: float = 600.0,
        requests_per_minute: float = 0.0,
    ) -> None:
        named = provider_of(target)
        url, _, model = (named[0].url, "", named[1]) if named else target.partition("#")
        limit = limit or (named[0].limit if named else LIMITS[0])
        urls = [part.strip() for part in url.split(",") if part.strip()]
        self.omitted = tuple(name for name in (part.strip() for part in omit.split(",")) if name)
        if limit not in LIMITS or not set(self.omitted) <= set(OMITTABLE):
            raise BadConfig(
                f"limit is {limit!r}, omit {omit!r}; expected limit to be one of {', '.join(LIMITS)}, and omit some of "
                f"{', '.join(OMITTABLE)}"
            )
        self._limit, self._left_out = limit, {*self.omitted}
        self.body, self.header = _body(body or {}), _header(header or {})
        self.adapted: dict[str, str] = {}
        """Parameters that the server refused, each with its adaptation, such as `left out`."""
        super().__init__(
            self.kind(
                urls,
                key=_key(key_env or (named[0].key_env if named else None)),
                key_header=key_header,
                headers=self.header,
                retries=retries,
                backoff=backoff,
                timeout=timeout,
                requests_per_minute=requests_per_minute,
            )
        )
        self.model = model or _only_model(self.servers)
        self.named = named is not None

    @property
    def settings(self) -> dict[str, object]:
        """Options that affect replies, for the run's record; header values and keys are removed."""
        settings: dict[str, object] = {"server": self.servers.servers[0].url} if self.named else {}
        settings |= {"omitted": list(self.omitted)} if self.omitted else {}
        settings |= {"body": hidden(self.body)} if self.body else {}
        return settings | ({"headers": sorted(self.header)} if self.header else {})

    async def chat(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling, session: str
    ) -> Completion:
        """Return a reply (text and tool calls); finish is `context` if the server reports that the messages are too long.

        Raises:
            BadConfig: `sampling` has filters, penalties or stop tokens, the server would refuse every request, or it
                refuses the tools of an episode's first request.
            Fault: the last retry failed, or the server refuses this request.
            EngineDead: no server can be reached.
        """
        if not sampling.plain() or sampling.stop_ids:
            raise BadConfig("the chat engine takes temperature and max_tokens only: no filters, penalties or stop_ids")
        done = await self.run_request(lambda: self._ask(messages, tools, sampling, session), session)
        return done or Completion([], [], "abort", text="")

    def request(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling
    ) -> dict[str, object]:
        """Return the request body."""
        parameters = {"temperature": sampling.temperature, "top_p": 1.0, "seed": sampling.seed % 2**31}  # some take 32 bits
        sent = [self.echoed(message) for message in messages]
        body: dict[str, object] = {"model": self.model, "messages": sent, self._limit: sampling.max_tokens}
        parameters |= {"n": 1, "stream": False}
        accepted = {name: value for name, value in parameters.items() if name not in self._left_out}
        return {**body, **({"tools": list(tools)} if tools else {}), **accepted, **self.body}

    def echoed(self, message: Mapping[str, object]) -> dict[str, object]:
        """Return the message as later requests send it: without reasoning if the server refuses reasoning."""
        left_out = (ECHO, "reasoning_details") if ECHO in self._left_out else ()
        return {name: value for name, value in message.items() if name not in left_out}

    def read(self, answer: Object) -> Completion:
        """Return the completion in a server's answer.

        Raises:
            Garbage: the answer is an error or not a valid reply.
        """
        return read_completion(answer)

    async def _ask(
        self,
        messages: Sequence[dict[str, object]],
        tools: Sequence[dict[str, object]],
        sampling: Sampling,
        session: str,
    ) -> Completion:
        most, seconds, adapted = characters(sampling.max_tokens), list[float](), 0
        while True:
            body = self.request(messages, tools, sampling)
            try:
                done = await self.servers.post(
                    self.path,
                    body,
                    session,
                    lambda answer: bounded(self.read(answer), most),
                    BESIDE + 2 * most,
                    lambda start: bounded(read_beginning(start), most),
                    seconds.append,
                )
                done.seconds = seconds[-1]
                return done
            except Refused as refusal:
                if (text := failed_call(refusal)) is not None:
                    return bounded(Completion([], [], "stop", text=text), most)
                if refused := tools_refused(body, messages, refusal):
                    raise refused from None
                if adapted < MOST_ADAPTED and self._adapts(refusal, body, first_request(messages)):
                    adapted += 1
                    continue
                if too_long(refusal):
                    return Completion([], [], "context", text="")
                raise results_refused(messages, refusal) or refusal from None
            except BadConfig as error:  # some servers and models answer tools with such a final status
                raise tools_refused(body, messages, error) or error from None

    def _adapts(self, refusal: Refused, body: Mapping[str, object], first: bool) -> bool:
        """Adapt later requests to a refusal; return False if the refusal names no parameter that can be adapted.

        Raises:
            BadConfig: without the parameter the request would mean something else; the message names the flag to use.
        """
        name = named_parameter(refusal, body, first=first)
        if name is None or (too_long(refusal) and not first):
            return False
        if name in LIMITS:
            return self._renames_limit(name, refusal)
        if name in self.body:
            raise BadConfig(f"{refusal}. It is yours: change or leave out --engine.body.{name}")
        if name == "temperature" and body[name] != 1.0:
            raise BadConfig(
                f"{refusal}. The temperature is {body[name]}: use --temperature 1, or --engine.omit temperature to play at "
                "the server's own"
            )
        if name not in (*OMITTABLE, ECHO, "n", "stream", "cache_control"):
            return False
        self._left_out.add(name)
        self.adapted[name] = "left out"
        return True

    def _renames_limit(self, name: str, refusal: Refused) -> bool:
        other = LIMITS[1 - LIMITS.index(name)]
        if name != self._limit:  # another request has changed it
            return True
        if other not in self.adapted and not too_long(refusal) and unknown_there(refusal):
            self._limit = other
            self.adapted[name] = f"sent as {other}"
            return True
        raise BadConfig(f"{refusal}. It is the most tokens of a reply: use --turn-tokens")


def hidden(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values for the run's record, with `***` in place of each value whose name looks like a secret's."""
    return {
        name: "***" if is_secret(name) else hidden(cast("dict[str, object]", value)) if isinstance(value, dict) else value
        for name, value in values.items()
    }


def _body(values: Mapping[str, object]) -> dict[str, object]:
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError):
        raise BadConfig(f"engine.body is {values!r}; expected JSON values") from None
    if fixed := sorted({*values} & {*FIXED}):
        raise BadConfig(f"engine.body has {', '.join(fixed)}, which the engine sets itself: use the flags of the command")
    return dict(values)


def _header(values: Mapping[str, object]) -> dict[str, str]:
    headers = {name: str(value) for name, value in values.items()}
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise BadConfig(f"engine.header.{name[:80]!r}: the name or the value holds characters that no header has")
    return headers


def _key(name: str | None) -> str | None:
    """Return the API key in the environment variable `name` (default: `KEY`); error messages never contain the key.

    Without `name`, return None if the default variable is not set.

    Raises:
        BadConfig: the named variable is not set, or its value cannot be a key.
    """
    key = os.environ.get(name or KEY, "").strip()
    if name is not None and not key:
        raise BadConfig(
            f"there is no key in the environment variable {name}: export {name}=…, or name another variable with "
            "--engine.key_env"
        )
    if not re.fullmatch(r"[!-~]*", key):
        raise BadConfig(f"the key in the environment variable {name or KEY} holds characters that no key has")
    return key or None


def _only_model(servers: Servers) -> str:
    names = [str(entry.get("id")) for entry in servers.models()]
    if len(names) != 1:
        raise BadConfig(f"say which model: chat:URL#MODEL. The server lists {', '.join(names[:20]) or 'none'}")
    return names[0]
