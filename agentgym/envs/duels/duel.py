"""The base class of two-player games."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from agentgym.core.env import Outcome, TextEnv
from agentgym.core.outcome import RoleReward
from agentgym.core.tasks import Task
from agentgym.envs.duels.perfect import Game, other
from agentgym.errors import BadConfig


class Duel(TextEnv):
    """Win a game from a position with a forced win, against perfect play or while playing both roles.

    `minimax` never misses a chance and breaks ties by the episode's random generator; a move that gives the win away
    ends the episode at once, since nothing could recover it. With `opponent="self"` the same rollout plays both roles
    until the game ends: `success` is True if the side with the forced win won, a turn's reward belongs to the role that
    moved, and `role_rewards()` returns the outcome by role (a draw is 0 for both). The oracle plays perfectly for the
    side to move, so it succeeds unless the win was given away before. The declared bounds of shortcut policies and
    random play apply to `minimax` only, because in self-play a weak player faces itself. No position is won in one
    move, or by naming the first or the last possible move.
    """

    roles = ("X", "O")
    splits: Mapping[str, float] = MappingProxyType({"train": 0.6, "valid": 0.2, "test": 0.2})
    horizon = 20
    task_settings: ClassVar[tuple[str, ...]] = ("opponent",)
    settings = task_settings
    opponent: str = "minimax"
    """The opponent: `minimax`, or `self`, which lets the same agent play both roles."""
    game: ClassVar[Game]
    rule: ClassVar[str]
    """Text of the winning condition and of the form of a reply; an example move is appended."""
    not_a_move: ClassVar[str]
    """Error text for a reply that is not a move, with the form of a reply; an example move is appended."""

    @abstractmethod
    def opening(self, rng: np.random.Generator, difficulty: int) -> tuple[str, str]:
        """Return a board and the side to move; only positions with a forced win become tasks."""

    @abstractmethod
    def canonical(self, board: str) -> str:
        """Return a canonical form of the board, which its rotations and reflections share."""

    def setup(self) -> None:
        if self.opponent not in ("minimax", "self"):
            raise BadConfig(f"opponent is {self.opponent!r}; expected 'minimax' or 'self'")

    def begin(self, task: Task) -> str:
        self.board, self.side = str(task.data["board"]), str(task.data["side"])
        self.to_move, self.winner = self.side, ""
        return f"{self.rule}{self.admissible()[0]}.\n{self._picture()}"

    @property
    def role(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # the board says it
        return self.to_move if "to_move" in self.__dict__ else self.roles[0]

    def act(self, action: str) -> str | Outcome:
        names = self.admissible()
        words = " ".join(action.split())
        if words not in names:
            return self.invalid(f"{words[:40]!r} {self.not_a_move}{names[0]}.")
        move = self.game.moves(self.board)[names.index(words)]
        loses_win = self.opponent == "minimax" and not self.game.keeps_win(self.board, move, self.to_move)
        self._place(move)
        if loses_win:
            return self.lose(f"{self.game.show(self.board)}\nThat gives the win away.")
        if self.opponent == "minimax" and not self._ended():
            best = self.game.best_moves(self.board, self.to_move)
            self._place(best[int(self.np_random.integers(len(best)))])
        if not self._ended():
            return self._picture()
        text = f"{self.game.show(self.board)}\n" + (f"{self.winner} has won." if self.winner else "A draw.")
        return self.win(text) if self.winner == self.side else self.lose(text)

    def admissible(self) -> list[str]:
        return [self.game.named(self.board, move) for move in self.game.moves(self.board)]

    def state(self) -> tuple[str, str]:
        return self.board, self.to_move

    def role_rewards(self) -> dict[str, RoleReward]:
        return {role: RoleReward(float(role == self.winner), role == self.winner) for role in self.roles}

    def oracle(self) -> Iterator[str]:
        while True:
            yield self.game.named(self.board, self.game.best_moves(self.board, self.to_move)[0])

    def expert(self) -> Iterator[str]:
        return self.oracle()  # perfect information

    def split_key(self, task: Task) -> object:
        return self.canonical(task.data["board"]), task.data["side"]

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        game = self.game
        while True:
            board, side = self.opening(rng, difficulty)
            moves = game.moves(board)
            if not game.wins(board, side) or any(game.completes(board, move, side) for move in moves):
                continue
            if not any(game.keeps_win(board, move, side) for move in (moves[0], moves[-1])):
                return Task(instruction="Win.", data={"board": board, "side": side})

    def _place(self, move: int) -> None:
        if self.game.completes(self.board, move, self.to_move):
            self.winner = self.to_move
        self.board = self.game.placed(self.board, move, self.to_move)
        self.to_move = other(self.to_move)

    def _ended(self) -> bool:
        return bool(self.winner) or "." not in self.board

    def _picture(self) -> str:
        return f"You are {self.to_move}.\n{self.game.show(self.board)}"
