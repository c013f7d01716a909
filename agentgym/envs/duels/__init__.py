"""Two-player board games, from positions that one side can win by force."""

from agentgym.envs.duels.connect_four import ConnectFour
from agentgym.envs.duels.tic_tac_toe import TicTacToe

__all__ = ["ConnectFour", "TicTacToe"]
