"""An environment of the caller's, played by a rollout or a session as one of their own is, and given back unclosed."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import gymnasium

from agentgym.core.env import TextEnv
from agentgym.core.wrapper import forwarded
from agentgym.rollout.faults import RetryingEnv
from agentgym.rollout.hosted import HostedEnv, LocalEnv


def lent(env: TextEnv) -> HostedEnv:
    """Return an environment as a rollout hosts it; closing that frees what was made beside it, and leaves it open.

    A step that faults is repeated in others made as this one was (`RetryingEnv`): no policy can turn a failure into a
    fault. Where nobody knows how it was made (no `spec`, or wrapped by what does not say how), a fault stays a fault.
    """
    hosted = LocalEnv(forwarded(env), owned=False)
    spec: Any = env.spec
    if spec is None or any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
        return hosted

    def fresh() -> HostedEnv:
        return LocalEnv(gymnasium.make(spec))  # pyright: ignore[reportArgumentType]

    def alone() -> AbstractAsyncContextManager[HostedEnv]:
        return nullcontext(fresh())

    return RetryingEnv(fresh, alone, hosted)
