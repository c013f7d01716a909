"""Concurrent coroutines; the first failure cancels the others."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently and return their results; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(item) for item in coroutines]
    except BaseExceptionGroup as failure:
        raise failure.exceptions[0] from failure
    return [task.result() for task in tasks]
