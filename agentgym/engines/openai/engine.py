"""Any OpenAI-compatible server that takes and returns token ids, such as `vllm serve` or our own gateway."""

import importlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentgym.core.json_value import JSON, Object, entries, table
from agentgym.engines.in_flight import LARGEST_ID, check_scored, in_full
from agentgym.engines.openai.client import largest
from agentgym.engines.openai.http import Garbage, ServedEngine, Servers, only_choice
from agentgym.engines.protocol import Completion, Request, Sampling, TokenEngine, watched
from agentgym.errors import BadConfig, Fault, Reason

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST = 1e300  # bound of log-probabilities: excludes infinity and integers beyond floats
_NAME = re.compile(r"(?:/|[A-Za-z]:[/\\])?[\w.-][\w. +=@,~/\\-]{0,500}")  # a model's name: no address, no network share
KNOWN = (
    "The quick brown fox jumps over the lazy dog.",
    "You are in the middle of a room. You see a desk 1, a shelf 2 and a drawer 10.",
    "def add(a, b):\n    return",
    "1, 2, 3, 5, 8,",
)


class OpenAIEngine(ServedEngine, TokenEngine):
    """Samples tokens through `/completions` of a server, or of several servers with the same model.

    `url` is an address that ends in `/v1`, or a comma-separated list of addresses. `model`, `tokenizer` and `context`
    default to the server's own description. A server can be used for evaluation at once, but for training only after
    `qualify`. The engine cannot change the server's weights. Serve with `vllm serve MODEL --generation-config vllm
    --logprobs-mode processed_logprobs`.
    """

    def __init__(
        self,
        url: str,
        tokenizer: object = None,
        *,
        model: str | None = None,
        context: int | None = None,
        key: str | None = None,
        retries: int = 6,
        backoff: float = 0.5,
        timeout: float = 600.0,
        requests_per_minute: float = 0.0,
    ) -> None:
        urls = [part.strip() for part in url.split(",") if part.strip()]
        super().__init__(
            Servers(
                urls,
                key=key,
                retries=retries,
                backoff=backoff,
                timeout=timeout,
                requests_per_minute=requests_per_minute,
            )
        )
        entry = _entry(self.servers.models(), model)
        self.model = str(entry["id"])
        served = entry.get("max_model_len")
        if context is None and not (isinstance(served, int) and served > 1):
            raise BadConfig(f"{urls[0]} does not say how long its context is (max_model_len is {served!r}): pass context=…")
        self.context = int(cast("int", served)) if context is None else context
        self.tokenizer: Any = served_tokenizer(entry.get("root") or self.model) if tokenizer is None else tokenizer
        self.policy_version = 0
        self.accepted = False
        """True if `qualify` has accepted the server's log-probabilities for training."""

    async def complete(self, request: Request) -> Completion:
        """Return one completion; it is empty if the request was aborted, or if the prompt fills the context.

        Raises:
            BadConfig: the prompt is invalid, or the server would refuse every request.
            Fault: the last retry failed, or the server refuses this request.
            EngineDead: no server can be reached.
        """
        self.check(request.session, request.prompt_ids)
        limit = request.room(self.context)
        if limit < 1:
            return Completion([], [], "length", self.policy_version)
        done = await self.run_request(lambda: self._complete(request, limit), request.session)
        return watched(done, request.watch) if done else Completion([], [], "abort", self.policy_version)

    async def _complete(self, request: Request, limit: int) -> Completion:
        fields = _request(self.model, request.prompt_ids, request.sampling, limit)
        body = {**fields, "logprobs": 0, "return_token_ids": True}

        def read(answer: Object) -> Completion:
            return _completion(answer, request.sampling, limit, self.policy_version)

        return await self.servers.post("/completions", body, request.session, read, largest(limit))

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1]; vLLM's server supports temperature 1 only.

        Raises:
            BadConfig: the text is invalid or too long, or the server does not support the temperature.
            Fault: the engine was closed, the last retry failed, or the server refuses this request.
            EngineDead: no server can be reached.
        """
        ids = list(ids)
        check_scored(ids, self.context)
        body = {**_request(self.model, ids, Sampling(temperature=temperature), 1), "prompt_logprobs": 0}
        body["prompt_logprobs_temperature"] = temperature  # our extension; a server that supports it returns it

        def read(answer: Object) -> list[float]:
            if temperature != 1.0 and answer.get("prompt_logprobs_temperature") != temperature:
                raise BadConfig(
                    f"{self.servers.servers[0].url} scores prompts at temperature 1 only; {temperature} was asked. "
                    "Score with the hf engine"
                )
            rows = only_choice(answer).get("prompt_logprobs")
            if not isinstance(rows, list) or len(rows) != len(ids):
                raise Garbage(f"expected {len(ids)} prompt_logprobs")
            return [scored(entry, id) for entry, id in zip(rows[1:], ids[1:], strict=True)]

        scores = await self.run_request(
            lambda: self.servers.post("/completions", body, "score", read, largest(len(ids))), "score"
        )
        if scores is None:
            raise Fault("the engine was closed while a server scored", reason=Reason.ENGINE)
        return scores

    async def qualify(
        self, reference: TokenEngine, *, temperature: float = 0.7, tokens: int = 16, tolerance: float = 0.02
    ) -> float:
        """Check that the server's log-probabilities match those of `reference` (the trainer's own model).

        The server samples up to `tokens` tokens after each of four fixed texts at `temperature`, and `reference` scores
        them. Returns the mean absolute difference of the log-probabilities; from then on the server is accepted for
        training.

        Raises:
            BadConfig: the difference exceeds `tolerance`, or the samples cannot distinguish the requested temperature
                from 1.
        """
        ours: list[float] = []
        true: list[float] = []
        plain: list[float] = []
        for number, text in enumerate(KNOWN):
            prompt = [int(id) for id in self.tokenizer.encode(text, add_special_tokens=False)]
            sampling = Sampling(temperature=temperature, max_tokens=tokens, seed=number)
            got = await self.generate(prompt, sampling, f"qualify {number}")
            ours += got.logprobs
            true += (await reference.score([*prompt, *got.ids], temperature))[len(prompt) - 1 :]
            plain += (await reference.score([*prompt, *got.ids], 1.0))[len(prompt) - 1 :]
        off, raw, distance = _mean_gap(ours, true), _mean_gap(ours, plain), _mean_gap(true, plain)
        self.accepted = off <= tolerance and distance > 2 * tolerance
        if off > tolerance:
            hint = (
                "unscaled ones: serve with --logprobs-mode processed_logprobs" if raw <= tolerance else "of other weights?"
            )
            raise BadConfig(
                f"the server's log-probabilities at temperature {temperature} differ from the model's by {off:.3f} on "
                f"average over {len(ours)} tokens; at most {tolerance} is accepted for training ({hint})"
            )
        if not self.accepted:
            raise BadConfig(
                f"temperatures {temperature} and 1 differ by only {distance:.4f} over {len(ours)} tokens: the model is too "
                "certain here to show whether its server scales log-probabilities; request more tokens"
            )
        return off

    async def load_weights(self, weights: str | Path | Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Refuse: the engine cannot change a server's weights.

        Raises:
            BadConfig: always.
        """
        raise BadConfig("the openai engine cannot change a server's weights: train with hf or vllm, or restart the server")


def _request(model: str, prompt: list[int], sampling: Sampling, limit: int) -> dict[str, object]:
    return {"model": model, "prompt": prompt, **in_full(sampling, limit)}


def _completion(answer: Object, sampling: Sampling, limit: int, version: int) -> Completion:
    """Parse an untrusted answer.

    Raises:
        BadConfig: the server returns no token ids.
        Garbage: the answer is not a valid completion.
    """
    choice = only_choice(answer)
    if choice.get("token_ids") is None:
        raise BadConfig("the server returns no token ids: it must know return_token_ids (vllm serve does, 0.10.2 or later)")
    values = numbers(table(choice.get("logprobs")).get("token_logprobs"))
    served_version = answer.get("policy_version")
    return checked(choice, values, sampling, limit, served_version if type(served_version) is int else version)


def checked(choice: Object, values: list[float] | None, sampling: Sampling, limit: int, version: int) -> Completion:
    """Return the completion in a choice with `token_ids` and `finish_reason`, with its log-probabilities.

    Raises:
        Garbage: the ids or log-probabilities are invalid.
        BadConfig: the server enforces its own limit on tokens.
    """
    ids, finish = _integers(choice.get("token_ids")), choice.get("finish_reason")
    if ids is None or not 1 <= len(ids) <= limit or min(ids) < 0 or max(ids) > LARGEST_ID:
        raise Garbage(f"expected 1 to {limit} token_ids")
    if values is None or len(values) != len(ids) or not all(-_LARGEST < v < 1e-3 for v in values):
        raise Garbage("expected a log-probability for each of token_ids")
    ended = ids[-1] in sampling.stop_ids
    if not isinstance(finish, str) or finish not in ("stop", "length") or (finish == "stop") != ended:
        raise Garbage(f"finish_reason {str(finish)[:20]!r} where the stop token {'came' if ended else 'did not come'}")
    if finish == "length" and len(ids) < limit:
        raise BadConfig(
            f"the server cut a completion at {len(ids)} of {limit} tokens by its own limit: "
            "serve with --generation-config vllm"
        )
    return Completion(list(ids), [float(v) for v in values], finish, version)


def _integers(raw: JSON) -> list[int] | None:
    """Return an array of integers; None if `raw` is anything else."""
    integers = [value for value in entries(raw) if type(value) is int]
    return integers if isinstance(raw, list) and len(integers) == len(raw) else None


def numbers(raw: JSON) -> list[float] | None:
    """Return an array of numbers; None if `raw` is anything else."""
    numbers = [value for value in entries(raw) if type(value) is int or type(value) is float]
    return numbers if isinstance(raw, list) and len(numbers) == len(raw) else None


def scored(entry: JSON, id: int) -> float:
    """Return the log-probability of a token in an entry of `prompt_logprobs`.

    Raises:
        Garbage: the entry has no valid log-probability for the token.
    """
    value = table(table(entry).get(str(id))).get("logprob")
    if (type(value) is not float and type(value) is not int) or not -_LARGEST < value < 1e-3:
        raise Garbage(f"no log-probability for token {id}")
    return float(value)


def _mean_gap(a: list[float], b: list[float]) -> float:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / max(len(a), 1)


def _entry(models: list[Object], model: str | None) -> Object:
    names = [str(entry.get("id")) for entry in models]
    if model is None and len(models) == 1 and "id" in models[0]:
        return models[0]
    if model not in names:
        problem = "several models are served: pass model=…" if model is None else f"the server has no model {model!r}"
        raise BadConfig(f"{problem}; it lists {', '.join(names[:20]) or 'none'}")
    return models[names.index(model)]


def served_tokenizer(name: object) -> Any:
    """Load the tokenizer that a server names: a hub name or a local folder. Code in it never runs.

    Raises:
        BadConfig: the name has another form, or the tokenizer cannot be loaded.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in re.split(r"[/\\]", name):
        raise BadConfig(
            f"the server names {str(name)[:100]!r} as its tokenizer; expected a hub name such as Qwen/Qwen3-0.6B, or a "
            "folder here: pass tokenizer=…"
        )
    try:
        library = importlib.import_module("transformers")
        return library.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # a missing folder, network or library
        raise BadConfig(f"the tokenizer of {name!r} cannot be read here ({error}): pass tokenizer=…") from error
