"""Hosting of an environment that belongs to the caller, so that it stays open."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import gymnasium

from agentgym.core.env import TextEnv
from agentgym.core.wrapper import forwarded
from agentgym.rollout.faults import RetryingEnv
from agentgym.rollout.hosted import HostedEnv, LocalEnv


def host_caller_env(env: TextEnv) -> HostedEnv:
    """Host a caller's environment. Closing the result closes any copies of the environment but leaves `env` open.

    A step that faults is repeated in copies (`RetryingEnv`), so no policy can turn a failure into a fault. If the
    environment cannot be copied (it has no `spec`, or a wrapper without recorded arguments), a fault stays a fault.
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
