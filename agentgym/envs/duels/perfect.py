"""Perfect play in games where two players, X and O, fill a board in turn until one completes a line."""

import itertools
from abc import ABC, abstractmethod
from functools import lru_cache


class Game(ABC):
    """Rules of a game of two players who fill a board; a board is a string of X, O and, for free squares, a full stop.

    Values of positions are found by exhaustive search and cached, so boards must have few free squares.
    """

    def __init__(self) -> None:
        self.value = lru_cache(maxsize=200_000)(self._value)
        self.wins = lru_cache(maxsize=200_000)(self._wins)

    @abstractmethod
    def moves(self, board: str) -> list[int]:
        """Return the legal moves on an undecided board; empty only on a full board."""

    @abstractmethod
    def placed(self, board: str, move: int, side: str) -> str:
        """Return the board after a move."""

    @abstractmethod
    def completes(self, board: str, move: int, side: str) -> bool:
        """Return True if a move completes a line."""

    @abstractmethod
    def named(self, board: str, move: int) -> str:
        """Return the text of a move, as players write it."""

    @abstractmethod
    def show(self, board: str) -> str:
        """Return a board as lines of text."""

    def worth(self, board: str, move: int, side: str) -> int:
        """Return the value of a move by `side` for this side: above 0 a win (more if sooner), 0 a draw, below 0 a loss."""
        if self.completes(board, move, side):
            return board.count(".")
        return -self.value(self.placed(board, move, side), other(side))

    def best_moves(self, board: str, side: str) -> list[int]:
        """Return the perfect moves: the quickest win, else a draw, else the slowest loss."""
        best = self.value(board, side)
        return [move for move in self.moves(board) if self.worth(board, move, side) == best]

    def keeps_win(self, board: str, move: int, side: str) -> bool:
        """Return True if a move wins at once or keeps a forced win."""
        if self.completes(board, move, side):
            return True
        board, them = self.placed(board, move, side), other(side)
        answers = self.moves(board)
        if not answers or any(self.completes(board, answer, them) for answer in answers):
            return False
        return all(self.wins(self.placed(board, answer, them), side) for answer in answers)

    def _value(self, board: str, side: str) -> int:
        """Return the value for the side to move: above 0 a win (more if sooner), 0 a draw, below 0 a loss."""
        moves = self.moves(board)
        if any(self.completes(board, move, side) for move in moves):
            return board.count(".")  # the maximum
        threats = [move for move in moves if self.completes(board, move, other(side))]
        if len(threats) > 1:
            return 1 - board.count(".")  # one threat remains: the minimum
        return max((-self.value(self.placed(board, move, side), other(side)) for move in threats or moves), default=0)

    def _wins(self, board: str, side: str) -> bool:
        """Return True if the side to move, `side`, can force a win."""
        moves = self.moves(board)
        if any(self.completes(board, move, side) for move in moves):  # checked before the search
            return True
        return any(self.keeps_win(board, move, side) for move in moves)


def other(side: str) -> str:
    """Return the other side."""
    return "O" if side == "X" else "X"


@lru_cache(maxsize=64)
def lines_through(rows: int, columns: int) -> list[list[tuple[int, ...]]]:
    """Return, for each square, the lines of four through it, each as its other three squares.

    Squares are counted by rows, from 0.
    """
    through: list[list[tuple[int, ...]]] = [[] for _ in range(rows * columns)]
    for row, column, (down, right) in itertools.product(range(rows), range(columns), ((0, 1), (1, 0), (1, 1), (1, -1))):
        if row + 3 * down < rows and 0 <= column + 3 * right < columns:
            line = [(row + down * step) * columns + column + right * step for step in range(4)]
            for square in line:
                through[square].append(tuple(each for each in line if each != square))
    return through
