"""Environment for BFCL rows: functions to call, judged by BFCL's rules for calls and states."""

import json
from collections.abc import Iterator

from agentgym.core.actions import Call, parse_call, tool, unreadable
from agentgym.core.declared import Declarations
from agentgym.core.env import MAX_ACTION, Outcome
from agentgym.core.tasks import Task
from agentgym.envs.functions.bfcl import backend
from agentgym.envs.functions.bfcl.check import Made, Value, expected_calls, right
from agentgym.envs.functions.bfcl.rows import as_tool, load
from agentgym.tasks.from_file import FromFile

RULES = """\
Call the functions that the user's request needs, one call a turn, and end with end_turn. If no function fits, or a value \
is missing, end with end_turn and say so."""
MORE = "User: There are more functions now. Go on."
LONGEST_RESULT = 8000
"""Maximum number of characters shown of a call's result."""
STEPS = 20
"""Minimum number of calls per user turn that the default horizon allows."""


class BFCL(FromFile, replaces=("_respond",)):
    """Call functions as a row of BFCL (version 3 or 4) requires, judged by the rules of its checkers.

    Single-turn rows are judged at `end_turn`. Depending on the category, the calls must match the expected ones, or
    there must be no call, or at least one call. Multi-turn rows use services of the installed package bfcl-eval: after
    each turn, the state of the services must equal that after the expected calls, and the results must include theirs.

    Ceilings: rows of `irrelevance` expect no call, so ending at once is right; those of `live_relevance` accept any
    call.
    """

    horizon = 21
    # ending at once is right if no function fits, any call if one does
    declared = Declarations(random_bound=1.0, expert_bound=0.0, ceilings={"first hit": 1.0, "form without content": 1.0})
    read_file = staticmethod(load)

    def setup(self) -> None:
        self._own_tools = dict(self.tools)
        self._services: tuple[str, backend.Services] | None = None

    def limit_of(self, task: Task) -> int:
        """Return a task's turn limit: `horizon` if it was set or the row has a single turn, else a default.

        The default is the sum, over user turns, of one plus the larger of 20 and twice the number of expected calls.
        """
        if "horizon" in self.__dict__ or task.data["kind"] != "state":
            return self.horizon
        return sum(max(STEPS, 2 * len(turn)) + 1 for turn in task.data["answers"])

    # The episode

    def begin(self, task: Task) -> str:
        self.number = 0
        """Number of user turns completed correctly, which is the index of the current one."""
        self.made: list[list[Made]] = [[]]
        """Calls made in each user turn."""
        self.wrong = False
        self._offer()
        return "\n".join([RULES, *task.data["turns"][0]])

    def load(self, payload: object) -> None:
        super().load(payload)
        self._offer()

    def _offer(self) -> None:
        """Offer the functions of the current turn by updating the dictionary of tools in place."""
        late = self.task.data.get("late", {})
        hidden = {name for turn, names in late.items() if int(turn) > self.number for name in names}
        functions = [one for one in self.task.data["functions"] if one["name"] not in hidden]
        offered = [as_tool(function) for function in functions]
        self.tools.clear()
        self.tools.update({one.name: one for one in offered} | self._own_tools)
        loose = [as_tool(function, typed=False) for function in functions]
        self._loose = {one.name: one for one in loose}

    def _respond(self, action: str) -> Outcome:
        if not unreadable(action, MAX_ACTION):
            call = parse_call(action, self._loose | self._own_tools)
            if isinstance(call, Call) and call.name in self._loose:
                return self._called(call)
        return super()._respond(action)

    def _called(self, call: Call) -> Outcome:
        made = (call.name, call.arguments)
        if self.task.data["kind"] != "state":
            self.made[-1].append(made)
            return Outcome("The call is noted. Its result is not shown.")
        services = self._current()
        self.made[-1].append(made)
        text = backend.call(services, self.task.data["owners"], made)
        self._services = (self._played(), services)
        return Outcome(
            text
            if len(text) <= LONGEST_RESULT
            else f"{text[:LONGEST_RESULT]}… ({len(text) - LONGEST_RESULT} more characters)"
        )

    @tool
    def end_turn(self, text: str) -> Outcome:
        """Say something to the user, which ends your turn: an answer, a question, or why the request is not possible."""
        data = self.task.data
        if data["kind"] != "state":
            return self._judged()
        if not self._turn_is_right():
            return self.lose(f"Turn {self.number + 1} has the wrong result.")
        self.number += 1
        if self.number == len(data["turns"]):
            return self.win("All turns have the right result.")
        self.made.append([])
        self._offer()
        return Outcome("\n".join(data["turns"][self.number] or [MORE]))

    def _judged(self) -> Outcome:
        data, made = self.task.data, self.made[0]
        if data["kind"] == "calls":
            good = right(data["category"], made, data["functions"], data["answers"])
        else:
            good = bool(made) == (data["kind"] == "any call")
        self.number += good
        return self.win("The calls are the expected ones.") if good else self.lose("The calls are not the expected ones.")

    # Services

    def _played(self) -> str:
        return json.dumps([self.task.id, self.made], sort_keys=True)

    def _current(self) -> backend.Services:
        """Return the services after the calls so far; after a restored snapshot, replay the calls first."""
        if self._services is None or self._services[0] != self._played():
            data = self.task.data
            services = backend.opened(data["classes"], data["config"], long=data["long"])
            for made in self._all_made():
                backend.call(services, data["owners"], made)
            return services
        return self._services[1]

    def _all_made(self) -> list[Made]:
        return [(name, arguments) for turn in self.made for name, arguments in turn]

    def _turn_is_right(self) -> bool:
        """Return whether the state equals that after the expected calls, and the results include this turn's expected ones.

        True if the turn expects no calls; otherwise False if the agent made none in this turn.
        """
        data = self.task.data
        expected = data["answers"][self.number]
        if not expected:
            return True
        if not self.made[-1]:
            return False
        services, reference = (backend.opened(data["classes"], data["config"], long=data["long"]) for _ in range(2))
        results = [backend.call(services, data["owners"], made) for made in self._all_made()]
        expected_results: list[str] = []
        for turn in data["answers"][: self.number + 1]:
            expected_results = [backend.call(reference, data["owners"], (name, arguments)) for name, arguments in turn]
        return backend.equal(services, reference) and backend.holds(results, expected_results)

    # Framework hooks

    def state(self) -> object:
        return self.number, json.dumps(self.made, sort_keys=True)

    def measures(self) -> dict[str, float]:
        """Return `turns`: the share of the row's user turns completed correctly."""
        return {"turns": self.number / len(self.task.data["turns"])}

    def oracle(self) -> Iterator[str]:
        """Yield the current turn's remaining calls, then `end_turn`.

        Raises:
            NotImplementedError: BFCL's answer has no calls, or the agent made a wrong call, which cannot be undone.
        """
        data = self.task.data
        while True:
            calls, made = self._expected(data), self.made[-1]
            if data["kind"] != "any call" and made != calls[: len(made)]:
                raise NotImplementedError(f"a call was made that the answer of {self.task.id} does not have in its place")
            count = len(made)
            if count >= len(calls):
                yield json.dumps({"name": "end_turn", "arguments": {"text": "Done."}})
            else:
                name, arguments = calls[count]
                yield json.dumps({"name": name, "arguments": arguments})

    def _expected(self, data: dict[str, Value]) -> list[Made]:
        if data["kind"] == "state":
            return [(name, arguments) for name, arguments in data["answers"][self.number]]
        if data["kind"] != "calls":
            names = [as_tool(function) for function in data["functions"]]
            return [] if data["kind"] == "no call" else [(names[0].name, dict.fromkeys(names[0].required, ""))]
        calls = expected_calls(data["functions"], data["answers"])
        if not right(data["category"], calls, data["functions"], data["answers"]):
            raise NotImplementedError(f"the checker of BFCL accepts no calls made of the answer of {self.task.id}")
        return calls
