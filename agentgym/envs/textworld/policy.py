"""How a game is won from where it stands, without its interpreter."""

import importlib
from typing import Any


class Policy:
    """The package's record of an episode, which knows what is still to be done to win."""

    def __init__(self, key: str, game: Any) -> None:
        self.key = key
        self.log: list[str] = []
        self._words = importlib.import_module("textworld.generator.inform7").Inform7Game(game)
        self._progress = importlib.import_module("textworld.generator.game").GameProgression(game, track_quests=True)

    def follow(self, command: str) -> None:
        """Take note of a command that was carried out."""
        actions = self._progress.valid_actions
        names = self._words.gen_commands_from_actions(actions)
        self._progress.update(actions[names.index(command)])
        self.log.append(command)

    def commands(self) -> list[str]:
        """Return the commands that win the game from here."""
        return list(self._words.gen_commands_from_actions(self._progress.winning_policy or []))
