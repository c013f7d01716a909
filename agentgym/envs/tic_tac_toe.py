"""An environment of two players: noughts and crosses, from openings that one side can win by force."""

import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig


class TicTacToe(TextEnv):
    """Win noughts and crosses from an opening that can be won by force.

    The board is 5 squares wide at difficulty 0 and one more at each level, and four in a row win. Against
    `minimax`, which never misses a chance and breaks ties by the episode's chance, a move that gives the win away
    ends the episode at once: nothing could bring it back. With `opponent="self"` the same rollout plays both roles
    until the board decides; `success` then says whether the side that could force the win did win, the reward of a
    turn belongs to the role that moved, `role_rewards()` holds the outcome by role (a draw is 0 for both), and the
    oracle plays perfectly for whoever moves, so it succeeds as long as the win was not given away before; declared
    bounds of shortcut policies and chance hold against `minimax`, for in self-play a weak player meets itself.
    No opening is won at once, or by naming the first or the last free square.
    """

    roles = ("X", "O")
    splits: Mapping[str, float] = MappingProxyType({"train": 0.6, "valid": 0.2, "test": 0.2})
    horizon = 20
    settings = ("opponent",)
    opponent: str = "minimax"
    """Who plays the other side: `minimax`, or `self` for the same agent in both roles."""

    def setup(self) -> None:
        if self.opponent not in ("minimax", "self"):
            raise BadConfig(f"opponent is {self.opponent!r}; expected 'minimax' or 'self'")

    def begin(self, task: Task) -> str:
        self.board, self.side = str(task.data["board"]), str(task.data["side"])
        self.to_move, self.winner = self.side, ""
        rule = "Four in a row wins: across, down or diagonally."
        return (
            f"{rule} Reply with the row and column of a free square, for example {self.admissible()[0]}.\n{self._picture()}"
        )

    @property
    def role(self) -> str:
        return self.to_move if "to_move" in self.__dict__ else self.roles[0]

    def act(self, action: str) -> str | Outcome:
        squares = self.admissible()
        words = " ".join(action.split())
        if words not in squares:
            return self.invalid(
                f"{words[:40]!r} is not a free square. Reply with a row and a column, for example {squares[0]}."
            )
        square = free(self.board)[squares.index(words)]
        given_away = self.opponent == "minimax" and not keeps_win(self.board, square, self.to_move)
        self._place(square)
        if given_away:
            return self.lose(f"{show(self.board)}\nThat gives the win away.")
        if self.opponent == "minimax" and not self._ended():
            best = best_moves(self.board, self.to_move)
            self._place(best[int(self.np_random.integers(len(best)))])
        if not self._ended():
            return self._picture()
        text = f"{show(self.board)}\n" + (f"{self.winner} has won." if self.winner else "A draw.")
        return self.win(text) if self.winner == self.side else self.lose(text)

    def admissible(self) -> list[str]:
        side = width(self.board)
        return [f"{square // side + 1} {square % side + 1}" for square in free(self.board)]

    def state(self) -> tuple[str, str]:
        return self.board, self.to_move

    def role_rewards(self) -> dict[str, float]:
        return {role: float(role == self.winner) for role in self.roles}

    def oracle(self) -> Iterator[str]:
        while True:
            best = best_moves(self.board, self.to_move)[0]
            yield f"{best // width(self.board) + 1} {best % width(self.board) + 1}"

    def expert(self) -> Iterator[str]:
        return self.oracle()  # the board shows everything

    def split_key(self, task: Task) -> object:
        return canonical(task.data["board"]), task.data["side"]

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        while True:
            board, side = opening(rng, 5 + difficulty)
            squares = free(board)
            if wins(board, side) and not any(keeps_win(board, square, side) for square in (squares[0], squares[-1])):
                return Task(instruction="Win.", data={"board": board, "side": side})

    def _place(self, square: int) -> None:
        if completes(self.board, square, self.to_move):
            self.winner = self.to_move
        self.board = placed(self.board, square, self.to_move)
        self.to_move = other(self.to_move)

    def _ended(self) -> bool:
        return bool(self.winner) or "." not in self.board

    def _picture(self) -> str:
        return f"You are {self.to_move}.\n{show(self.board)}"


def other(side: str) -> str:
    """Return the side that does not move now."""
    return "O" if side == "X" else "X"


def width(board: str) -> int:
    """Return the number of squares in a row of a square board."""
    return round(len(board) ** 0.5)


def show(board: str) -> str:
    """Return the board as lines of text."""
    side = width(board)
    return "\n".join(" ".join(board[i : i + side]) for i in range(0, len(board), side))


def free(board: str) -> list[int]:
    """Return the free squares."""
    return [square for square, sign in enumerate(board) if sign == "."]


def placed(board: str, square: int, side: str) -> str:
    """Return the board with one more sign."""
    return board[:square] + side + board[square + 1 :]


@lru_cache(maxsize=64)
def lines_through(side: int) -> list[list[list[int]]]:
    """Return for every square of a board that wide the other squares of each line through it."""
    through: list[list[list[int]]] = [[] for _ in range(side * side)]
    for row, column, (down, right) in itertools.product(range(side), range(side), ((0, 1), (1, 0), (1, 1), (1, -1))):
        if row + 3 * down < side and 0 <= column + 3 * right < side:
            line = [(row + down * step) * side + column + right * step for step in range(4)]
            for square in line:
                through[square].append([cell for cell in line if cell != square])
    return through


def completes(board: str, square: int, side: str) -> bool:
    """Return whether a sign on that square makes four in a row."""
    return any(all(board[cell] == side for cell in line) for line in lines_through(width(board))[square])


@lru_cache(maxsize=200_000)
def value(board: str, side: str) -> int:
    """Return what perfect play brings the side to move: above 0 a win (more the sooner), 0 a draw, below 0 a loss."""
    return max((worth(board, square, side) for square in free(board)), default=0)


def worth(board: str, square: int, side: str) -> int:
    """Return the value of one move, for the side that makes it."""
    if completes(board, square, side):
        return board.count(".")
    return -value(placed(board, square, side), other(side))


def best_moves(board: str, side: str) -> list[int]:
    """Return the squares that perfect play may choose: the quickest win, else a draw, else the slowest loss."""
    best = value(board, side)
    return [square for square in free(board) if worth(board, square, side) == best]


def canonical(board: str) -> str:
    """Return the same board for all eight ways of turning and mirroring it."""
    grid = np.array(list(board)).reshape(width(board), -1)
    turned = [np.rot90(way, times) for way in (grid, grid.T) for times in range(4)]
    return min("".join(way.ravel().tolist()) for way in turned)


def opening(rng: np.random.Generator, side: int) -> tuple[str, str]:
    """Return a board with a few free squares near one another and no threat on it, and the side to move.

    The other squares are filled at random, about as many X as O; where neither sign fits, its neighbours are cleared
    and filled again.
    """
    corner = rng.integers(0, side - 3, 2)
    window = [(corner[0] + square // 4) * side + corner[1] + square % 4 for square in range(16)]
    keep = {int(square) for square in rng.choice(window, int(rng.integers(5, 8)), replace=False)}
    board = "." * side * side
    while board.count(".") > len(keep):
        for square in (int(cell) for cell in rng.permutation(free(board))):
            if square in keep:
                continue
            lacking = "X" if board.count("X") <= board.count("O") else "O"
            fitting = [sign for sign in (lacking, other(lacking)) if not _threatens(board, square, sign, keep)]
            if not fitting:
                for cell in itertools.chain.from_iterable(lines_through(side)[square]):
                    board = placed(board, cell, ".")
                break
            board = placed(board, square, fitting[0])
    return board, "X" if board.count("X") <= board.count("O") else "O"


def _threatens(board: str, square: int, side: str, keep: set[int]) -> bool:
    """Return whether a sign on that square would leave its side one move from four in a row, or there already."""
    for line in lines_through(width(board))[square]:
        signs = sum(board[cell] == side for cell in line)
        if signs == 3 or (signs == 2 and any(cell in keep for cell in line)):
            return True
    return False


@lru_cache(maxsize=200_000)
def wins(board: str, side: str) -> bool:
    """Return whether the side to move can force a win."""
    return any(keeps_win(board, square, side) for square in free(board))


def keeps_win(board: str, square: int, side: str) -> bool:
    """Return whether a move wins, or leaves a win that can be forced."""
    if completes(board, square, side):
        return True
    board = placed(board, square, side)
    return "." in board and all(
        not completes(board, answer, other(side)) and wins(placed(board, answer, other(side)), side)
        for answer in free(board)
    )
