"""Tic-tac-toe with four in a row, from openings that one side can win by force."""

import itertools
import math

import numpy as np

from agentgym.envs.duels.duel import Duel
from agentgym.envs.duels.perfect import Game, lines_through, other


class Squares(Game):
    """Marks on a square board; four in a row win. A move is a square, counted from 0 by rows."""

    def moves(self, board: str) -> list[int]:
        return [square for square, sign in enumerate(board) if sign == "."]

    def placed(self, board: str, move: int, side: str) -> str:
        return board[:move] + side + board[move + 1 :]

    def completes(self, board: str, move: int, side: str) -> bool:
        for a, b, c in _lines(board)[move]:  # noqa: SIM110  searches do this by the million
            if board[a] == side and board[b] == side and board[c] == side:
                return True
        return False

    def named(self, board: str, move: int) -> str:
        return f"{move // width(board) + 1} {move % width(board) + 1}"

    def show(self, board: str) -> str:
        side = width(board)
        return "\n".join(" ".join(board[i : i + side]) for i in range(0, len(board), side))


GAME = Squares()


class TicTacToe(Duel):
    """Win tic-tac-toe on a larger board, from an opening with a forced win.

    The board is 5 squares wide at difficulty 0 and one more at each level, and four in a row win. `Duel` describes the rest.
    """

    game = GAME
    hardest = 9
    rule = "Four in a row wins: across, down or diagonally. Reply with the row and column of a free square, for example "
    not_a_move = "is not a free square. Reply with a row and a column, for example "

    def opening(self, rng: np.random.Generator, difficulty: int) -> tuple[str, str]:
        return opening(rng, 5 + difficulty)

    def canonical(self, board: str) -> str:
        return canonical(board)


def width(board: str) -> int:
    """Return the number of squares in a row of a square board."""
    return math.isqrt(len(board))


def _lines(board: str) -> list[list[tuple[int, ...]]]:
    return lines_through(width(board), width(board))


def canonical(board: str) -> str:
    """Return the board's canonical form, which its eight rotations and reflections share."""
    grid = np.array(list(board)).reshape(width(board), -1)
    turned = [np.rot90(way, times) for way in (grid, grid.T) for times in range(4)]
    return min("".join(way.ravel().tolist()) for way in turned)


def opening(rng: np.random.Generator, side: int) -> tuple[str, str]:
    """Return a board `side` squares wide and the side to move.

    The board has no threats, and 5 to 7 free squares close to each other. The other squares are filled at
    random with about as many X as O. If neither fits on a square, all lines through that square are cleared and filled
    again.
    """
    corner = rng.integers(0, side - 3, 2)
    window = [(corner[0] + square // 4) * side + corner[1] + square % 4 for square in range(16)]
    keep = {int(square) for square in rng.choice(window, int(rng.integers(5, 8)), replace=False)}
    board = "." * side * side
    while board.count(".") > len(keep):
        for square in (int(cell) for cell in rng.permutation(GAME.moves(board))):
            if square in keep:
                continue
            lacking = "X" if board.count("X") <= board.count("O") else "O"
            fitting = [sign for sign in (lacking, other(lacking)) if not _threatens(board, square, sign, keep)]
            if not fitting:
                for cell in itertools.chain.from_iterable(_lines(board)[square]):
                    board = GAME.placed(board, cell, ".")
                break
            board = GAME.placed(board, square, fitting[0])
    return board, "X" if board.count("X") <= board.count("O") else "O"


def _threatens(board: str, square: int, side: str, keep: set[int]) -> bool:
    """Return True if a mark of `side` on a square would make four in a row, or three in a line with a square in `keep`.

    `keep` are the squares that the opening leaves free.
    """
    for a, b, c in _lines(board)[square]:
        signs = (board[a] == side) + (board[b] == side) + (board[c] == side)
        if signs == 3 or (signs == 2 and (a in keep or b in keep or c in keep)):
            return True
    return False
