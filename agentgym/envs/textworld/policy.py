"""Winning commands from any state of a game, without its interpreter."""

import importlib


class Record:
    """textworld's record of an episode: possible actions, triggered events, and remaining goals."""

    def __init__(self, game: object) -> None:
        self._words = importlib.import_module("textworld.generator.inform7").Inform7Game(game)
        self.progress = importlib.import_module("textworld.generator.game").GameProgression(game, track_quests=True)

    def follow(self, command: str) -> object:
        """Record a command and return its action, or None if the command means no possible action.

        One command may mean several actions: to prepare a meal from all ingredients, or from some of them. The game uses all
        ingredients, so the action with the most preconditions is chosen.
        """
        actions = self.progress.valid_actions
        names = self._words.gen_commands_from_actions(actions)
        same = [action for action, name in zip(actions, names, strict=True) if name == command]
        action = max(same, key=lambda action: len(action.preconditions), default=None)
        if action is not None:
            self.progress.update(action)
        return action

    def commands(self) -> list[str]:
        """Return the commands that win from the current state; empty if none are known."""
        return list(self._words.gen_commands_from_actions(self.progress.winning_policy or []))


class Policy(Record):
    """The record of one task, with the actions so far."""

    def __init__(self, key: str, game: object) -> None:
        super().__init__(game)
        self.key = key
        self.log: list[str] = []

    def follow(self, command: str) -> object:
        self.log.append(command)
        return super().follow(command)
