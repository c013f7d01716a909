"""Noughts and crosses by hand: lines, perfect play, and what counts as the same opening."""

from functools import cache, lru_cache

import numpy as np
import pytest

import agentgym
from agentgym.envs.duels.perfect import lines_through
from agentgym.envs.duels.tic_tac_toe import GAME, canonical, opening


def test_lines_of_a_board_of_four():
    through = lines_through(4, 4)
    every = {frozenset([square, *line]) for square in range(16) for line in through[square]}
    rows = {frozenset(range(4 * row, 4 * row + 4)) for row in range(4)}
    columns = {frozenset(range(column, 16, 4)) for column in range(4)}
    assert every == rows | columns | {frozenset({0, 5, 10, 15}), frozenset({3, 6, 9, 12})}
    assert len({frozenset([s, *line]) for s in range(25) for line in lines_through(5, 5)[s]}) == 10 + 10 + 8


def test_completes():
    board = "XXX." + "...." * 3
    assert GAME.completes(board, 3, "X") and not GAME.completes(board, 3, "O") and not GAME.completes(board, 4, "X")


@lru_cache
def all_lines(side):
    return {frozenset([square, *line]) for square in range(side * side) for line in lines_through(side, side)[square]}


@cache
def reference(board, side):
    """The value by plain minimax over whole lines, written another way."""
    other = "O" if side == "X" else "X"
    if any(all(board[one] == other for one in line) for line in all_lines(round(len(board) ** 0.5))):
        return -1
    squares = [i for i, sign in enumerate(board) if sign == "."]
    return max((-reference(board[:i] + side + board[i + 1 :], other) for i in squares), default=0)


def test_value_wins_and_best_moves_agree_with_plain_minimax():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(40):
        board, side = opening(rng, 4)
        truth = reference(board, side)
        seen.add(truth)
        assert np.sign(GAME.value(board, side)) == truth and GAME.wins(board, side) == (truth == 1)
        good = [
            i
            for i in GAME.moves(board)
            if -reference(board[:i] + side + board[i + 1 :], "O" if side == "X" else "X") == truth
        ]
        assert set(GAME.best_moves(board, side)) <= set(good)
        if truth == 1:
            assert [i for i in GAME.moves(board) if GAME.keeps_win(board, i, side)] == good
    assert {0, 1} <= seen


def test_the_same_opening_turned_or_mirrored_is_one_opening():
    board = "XO.." + "...." + "...." + "...X"
    grid = np.array(list(board)).reshape(4, 4)
    turned = {"".join(np.rot90(way, times).ravel()) for way in (grid, grid[::-1]) for times in range(4)}
    assert len(turned) == 8 and len({canonical(one) for one in turned}) == 1
    assert canonical(board) != canonical(board.replace("O", "X"))


def test_openings_are_won_and_not_trivially():
    for task in agentgym.make("rlvr/TicTacToe-v0").tasks(4):
        board, side = task.data["board"], task.data["side"]
        squares = GAME.moves(board)
        assert len(board) == 25 and reference(board, side) == 1
        assert not any(GAME.completes(board, square, sign) for square in squares for sign in "XO")
        assert not GAME.keeps_win(board, squares[0], side) and not GAME.keeps_win(board, squares[-1], side)


def test_a_move_that_gives_the_win_away_ends_it():
    env = agentgym.make("rlvr/TicTacToe-v0")
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step(env.admissible()[0])
    assert (reward, terminated, info["reason"]) == (0.0, True, "failure") and observation.endswith(
        "That gives the win away."
    )


@pytest.mark.parametrize("action", ["0 1", "1", "1 1 1", "1,1", "a b", "9 9", "1 -1"])
def test_wrong_squares_are_explained(action):
    env = agentgym.make("rlvr/TicTacToe-v0")
    env.reset(seed=0)
    board = env.board
    observation, _, _, _, info = env.step(action)
    assert (
        not info["valid"]
        and "is not a free square. Reply with a row and a column, for example " in observation
        and env.board == board
    )
