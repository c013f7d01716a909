"""The agent's knowledge from its observations: location, contents of rooms, inventory and focus."""

import re

from agentgym.envs.scienceworld.answers import own


class Memory:
    """The task's text and all later observations, in the simulator's words."""

    def __init__(self, opening: str) -> None:
        """Parse the first observation, which contains the task and the initial room."""
        self.task = opening.partition("\n\n")[0].replace("Task Description:", "").strip()
        self.opening = opening
        self.room = ""
        self.seen: dict[str, str] = {}
        """The last view of each room."""
        self.doors: set[frozenset[str]] = set()
        """Pairs of rooms with a door that was seen or opened."""
        self.carried: list[str] = []
        self.focused: list[str] = []
        self.exchanges: list[tuple[str, str]] = []
        """Actions that reached the simulator, each with its answer."""
        self._look(self.opening.partition("\n\n")[2])

    @property
    def last(self) -> str:
        """The simulator's last answer; before the first action, the first observation."""
        return self.exchanges[-1][1] if self.exchanges else self.opening

    @property
    def view(self) -> str:
        """The last view of the current room."""
        return self.seen.get(self.room, "")

    def notice(self, action: str, text: str) -> None:
        """Update the knowledge from an action and its answer."""
        if own(text):
            return
        self.exchanges.append((action, text))
        if text.startswith("You reset the goal progress and focus"):  # rooms, doors and things are unchanged
            self.focused = []
        self._look(text)
        if match := re.match(r"You (move|teleport) to the (.+)\.$", text):
            if match[1] == "move":
                self.doors.add(frozenset((self.room, match[2])))
            self.room = match[2]
        elif match := re.match(r"open door to (.+)", action):
            if text.startswith(("The door is now open", "The door is already open")):
                self.doors.add(frozenset((self.room, match[1])))
        elif match := re.search(r"You move the (.+?) to the (.+)\.$", text):
            if match[2] == "inventory":
                self.carried.append(match[1])
            elif match[1] in self.carried:
                self.carried.remove(match[1])
        elif match := re.match(r"You focus on the (.+)\.$", text):
            self.focused.append(match[1])

    def _look(self, text: str) -> None:
        room = re.match(r"This (?:outside location|room) is called the (.+?)\.", text)
        if room is None:
            return
        self.room = room[1]
        self.seen[self.room] = text
        for other in re.findall(r"A door to the (.+?) \(that is open\)", text):
            self.doors.add(frozenset((self.room, other)))
