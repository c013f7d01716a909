"""Two-player games: board games from won positions, and Kuhn poker."""

from agentgym.envs.duels.connect_four import ConnectFour
from agentgym.envs.duels.kuhn import KuhnPoker
from agentgym.envs.duels.tic_tac_toe import TicTacToe

__all__ = ["ConnectFour", "KuhnPoker", "TicTacToe"]
