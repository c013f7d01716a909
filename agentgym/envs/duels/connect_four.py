"""Connect Four, from late positions that the side to move can win by force."""

import numpy as np

from agentgym.envs.duels.duel import Duel
from agentgym.envs.duels.perfect import Game, lines_through, other

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
        while True:
            board, side = "." * ROWS * COLUMNS, "X"
            while board.count(".") > left and (quiet := _quiet(game, board, side)):
                board, side = game.placed(board, quiet[int(rng.integers(len(quiet)))], side), other(side)
            moves = game.moves(board)
            if board.count(".") == left and len(moves) > 3 and sum(game.keeps_win(board, m, side) for m in moves) == 1:
                return board, side

    def canonical(self, board: str) -> str:
        rows = [board[row * COLUMNS : (row + 1) * COLUMNS] for row in range(ROWS)]
        return min(board, "".join(row[::-1] for row in rows))


def _quiet(game: Game, board: str, side: str) -> list[int]:
    """Return the moves that complete no line and do not let the other side complete one."""
    moves, them = game.moves(board), other(side)
    threats = {move for move in moves if game.completes(board, move, them)}
    quiet: list[int] = []
    for move in moves:
        if threats <= {move} and not game.completes(board, move, side):
            after = game.placed(board, move, side)
            if after[move] != "." or not game.completes(after, move, them):  # only this move of theirs has changed
                quiet.append(move)
    return quiet
