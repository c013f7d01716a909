"""Connect Four, from late positions that the side to move can win by force."""

import numpy as np

from agentgym.envs.duels.duel import Duel
from agentgym.envs.duels.perfect import Game, lines_through

ROWS, COLUMNS = 6, 7
_LINES = lines_through(ROWS, COLUMNS)


class Discs(Game):
    """The game of discs dropped into columns; a board's first row is the top row. A move is a column, counted from 0."""

    def moves(self, board: str) -> list[int]:
        return [column for column in range(COLUMNS) if board[column] == "."]

    def placed(self, board: str, move: int, side: str) -> str:
        square = landing(board, move)
        return board[:square] + side + board[square + 1 :]

    def completes(self, board: str, move: int, side: str) -> bool:
        for a, b, c in _LINES[landing(board, move)]:  # noqa: SIM110  searches do this by the million
            if board[a] == side and board[b] == side and board[c] == side:
                return True
        return False

    def named(self, board: str, move: int) -> str:
        return str(move + 1)

    def show(self, board: str) -> str:
        rows = [" ".join(board[row * COLUMNS : (row + 1) * COLUMNS]) for row in range(ROWS)]
        return "\n".join([*rows, " ".join(str(column + 1) for column in range(COLUMNS))])


def landing(board: str, column: int) -> int:
    """Return the square where a disc dropped into a column lands: the lowest free square of that column."""
    return board[column::COLUMNS].rindex(".") * COLUMNS + column


class ConnectFour(Duel):
    """Win Connect Four from a position with a forced win.

    The board has the usual six rows of seven columns. The positions come from random play that never completes a line
    or lets the other side complete one; exactly one of at least four moves keeps the win. 8 squares are free at
    difficulty 0 and one more at each level, up to 16. `Duel` describes the rest.
    """

    game = Discs()
    rule = (
        "Four in a row wins: across, down or diagonally. A disc falls to the lowest free square of its column. Reply with "
        "a column number, for example "
    )
    not_a_move = "is not a column with a free square. Reply with a column number, for example "

    def opening(self, rng: np.random.Generator, difficulty: int) -> tuple[str, str]:
        left, game = min(8 + difficulty, 16), self.game
        side = "O" if left % 2 else "X"  # X begins on 42 squares
        while True:
            board = _quiet_play(rng, left)
            moves = game.moves(board)
            if board.count(".") == left and len(moves) > 3 and sum(game.keeps_win(board, m, side) for m in moves) == 1:
                return board, side

    def canonical(self, board: str) -> str:
        rows = [board[row * COLUMNS : (row + 1) * COLUMNS] for row in range(ROWS)]
        return min(board, "".join(row[::-1] for row in rows))


_HEIGHT = ROWS + 1
"""Bits of a column in a set of squares, from the bottom up; the top bit stays empty, so no line enters the next column."""
_BOTTOM = sum(1 << column * _HEIGHT for column in range(COLUMNS))
_EACH_COLUMN = [((1 << ROWS) - 1) << column * _HEIGHT for column in range(COLUMNS)]
_ALL = sum(_EACH_COLUMN)


def _quiet_play(rng: np.random.Generator, left: int) -> str:
    """Return the board after random quiet moves, with `left` free squares, or with more if no quiet move remained."""
    own = theirs = wins = threats = 0  # squares of the side to move and of the other, and squares that complete their lines
    side, them = "X", "O"
    for _ in range(ROWS * COLUMNS - left):
        quiet = _quiet((own | theirs) + _BOTTOM & _ALL, wins, threats)
        columns = [column for column in _EACH_COLUMN if quiet & column]
        if not columns:
            break
        own |= quiet & columns[int(rng.integers(len(columns)))]
        own, theirs, wins, threats, side, them = theirs, own, threats, _completing(own), them, side
    squares = (column * _HEIGHT + row for row in reversed(range(ROWS)) for column in range(COLUMNS))
    return "".join(side if own >> square & 1 else them if theirs >> square & 1 else "." for square in squares)


def _quiet(landings: int, wins: int, threats: int) -> int:
    """Return the squares in `landings` where a disc completes no line and does not let the other side complete one."""
    threatened = landings & threats
    if threatened & threatened - 1:  # two squares, of which one disc takes one
        return 0
    return (threatened or landings) & ~wins & ~(threats >> 1)


def _completing(discs: int) -> int:
    """Return the squares that complete a line of `discs`."""
    squares = discs << 1 & discs << 2 & discs << 3
    for step in (_HEIGHT, _HEIGHT - 1, _HEIGHT + 1):
        left, right = discs << step, discs >> step
        squares |= left & discs << 2 * step & (discs << 3 * step | right)
        squares |= right & discs >> 2 * step & (discs >> 3 * step | left)
    return squares & _ALL
