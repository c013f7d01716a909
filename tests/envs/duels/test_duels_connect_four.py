"""Connect Four by hand: where discs fall, lines, perfect play, and what counts as the same position."""

from functools import cache

import numpy as np
import pytest

import agentgym
from agentgym.envs.duels.connect_four import COLUMNS, ROWS, ConnectFour, _quiet_play, landing

GAME = ConnectFour.game
EMPTY = "." * ROWS * COLUMNS


def drawn(*rows):
    """Return a board from its lowest rows."""
    return "." * COLUMNS * (ROWS - len(rows)) + "".join(rows)


def test_discs_fall_to_the_lowest_free_square():
    assert landing(EMPTY, 0) == 35 and landing(EMPTY, 6) == 41
    board = GAME.placed(GAME.placed(EMPTY, 2, "X"), 2, "O")
    assert board == drawn("..O....", "..X....") and landing(board, 2) == 37 - 3 * 7 + 7
    full = "X......" + "O......X......O......X......O......"
    assert GAME.moves(full) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("board", "column", "wins"),
    [
        (drawn("XXX...."), 3, True),
        (drawn("XXX...."), 4, False),
        (drawn("X.XX..."), 1, True),
        (drawn("X......", "X......", "X......"), 0, True),
        (drawn("..XO...", ".XOO...", "XOOXO.."), 3, True),  # rises to the right, from the lowest row
        (drawn("OX.....", "OOX....", "OXOX..."), 0, True),  # falls to the right
        (drawn("OX.....", "OOX....", "OXOO..."), 0, False),
        (drawn("....XXX", "OOO.OOO"), 3, False),  # it falls below its line
    ],
)
def test_lines_by_hand(board, column, wins):
    assert GAME.completes(board, column, "X") is wins


def test_every_line_is_one_of_69():
    lines = set()
    for square in range(ROWS * COLUMNS):
        for other in range(ROWS * COLUMNS):
            rise, run = other // COLUMNS - square // COLUMNS, other % COLUMNS - square % COLUMNS
            if (rise, run) in ((0, 3), (3, 0), (3, 3), (3, -3)):
                lines.add(frozenset(square + step * (rise // 3 * COLUMNS + run // 3) for step in range(4)))
    assert len(lines) == 69  # 24 across, 21 down, 24 diagonal
    for line in lines:
        for square in line:
            board = "".join("X" if each in line and each != square else "." for each in range(ROWS * COLUMNS))
            below = board[: square + 1] + "".join("O" if c == "." else c for c in board[square + 1 :])
            if landing(below, square % COLUMNS) == square:
                assert GAME.completes(below, square % COLUMNS, "X")


def fours(board, side):
    grid = np.array([sign == side for sign in board]).reshape(ROWS, COLUMNS)
    for row in range(ROWS):
        for column in range(COLUMNS):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                ends = row + 3 * down, column + 3 * right
                inside = ends[0] < ROWS and 0 <= ends[1] < COLUMNS
                if inside and all(grid[row + step * down, column + step * right] for step in range(4)):
                    return True
    return False


@cache
def reference(board, side):
    """The value by plain minimax over whole boards, written another way."""
    other = "O" if side == "X" else "X"
    if fours(board, other):
        return -1
    values = []
    for column in range(COLUMNS):
        free = [row for row in range(ROWS) if board[row * COLUMNS + column] == "."]
        if free:
            square = free[-1] * COLUMNS + column
            values.append(-reference(board[:square] + side + board[square + 1 :], other))
    return max(values, default=0)


def test_perfect_play_agrees_with_plain_minimax():
    rng, seen = np.random.default_rng(0), set()
    for task in agentgym.make("rlvr/ConnectFour-v0").tasks(16):
        board, side = task.data["board"], task.data["side"]
        for _ in range(int(rng.integers(4))):  # some of them no longer won
            board, side = GAME.placed(board, int(rng.choice(GAME.moves(board))), side), "O" if side == "X" else "X"
        if fours(board, "X") or fours(board, "O"):
            continue
        truth = reference(board, side)
        seen.add(truth)
        assert np.sign(GAME.value(board, side)) == truth and GAME.wins(board, side) == (truth == 1)
        for move in GAME.best_moves(board, side):
            after = GAME.placed(board, move, side)
            assert -reference(after, "O" if side == "X" else "X") == truth
    assert seen == {-1, 0, 1}


def plain_quiet_play(rng, left):
    """The same play move by move: no move completes a line, and afterwards the other side has none that does."""
    board, side, other = EMPTY, "X", "O"
    while board.count(".") > left:
        afterwards = [GAME.placed(board, move, side) for move in GAME.moves(board)]
        quiet = [b for b in afterwards if not fours(b, side) and not any(GAME.completes(b, m, other) for m in GAME.moves(b))]
        if not quiet:
            break
        board, side, other = quiet[int(rng.integers(len(quiet)))], other, side
    return board


def test_openings_come_from_quiet_play():
    boards = [_quiet_play(np.random.default_rng(seed), 14) for seed in range(10)]
    assert boards == [plain_quiet_play(np.random.default_rng(seed), 14) for seed in range(10)]
    assert {board.count(".") > 14 for board in boards} == {True, False}


@pytest.mark.parametrize("difficulty", [0, 3, 8, 30])
def test_openings_are_genuine_won_and_not_trivially(difficulty):
    for task in agentgym.make("rlvr/ConnectFour-v0", difficulty=difficulty).tasks(3):
        board, side = task.data["board"], task.data["side"]
        assert board.count(".") == min(8 + difficulty, 16) and len(board) == 42
        assert board.count("X") - board.count("O") == (side == "O")  # X began
        for square, sign in enumerate(board[:-COLUMNS]):
            assert sign == "." or board[square + COLUMNS] != ".", "a disc in the air"
        assert not fours(board, "X") and not fours(board, "O") and GAME.wins(board, side)
        moves = GAME.moves(board)
        assert len(moves) > 3 and sum(GAME.keeps_win(board, move, side) for move in moves) == 1
        assert not any(GAME.completes(board, move, side) for move in moves)
        assert not GAME.keeps_win(board, moves[0], side) and not GAME.keeps_win(board, moves[-1], side)


def test_mirrored_positions_are_one():
    env, board = ConnectFour(), drawn("XO.....", "XXO...O")
    assert env.canonical(board) == env.canonical(drawn(".....OX", "O...OXX")) != env.canonical(drawn("XO.....", "XOX...O"))


def test_what_a_player_reads():
    env = agentgym.make("rlvr/ConnectFour-v0")
    text, _ = env.reset(seed=0)
    first, *board = text.split("\n")
    assert first.startswith("Four in a row wins") and first.endswith(f"for example {env.admissible()[0]}.")
    assert board[0] == f"You are {env.side}." and len(board) == 8 and board[-1] == "1 2 3 4 5 6 7"
    observation, _, _, _, info = env.step("8")
    assert not info["valid"] and observation.startswith("'8' is not a column with a free square.")
