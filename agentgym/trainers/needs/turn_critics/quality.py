"""Probability that an episode succeeds from its current state: a logistic head on hidden states."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Outcome = tuple[bytes, bool]
"""A hidden state (float32 bytes), and True if its episode succeeded."""


class Quality:
    """P(success) = sigmoid(w . (x - mean) / std / sqrt(width) + b), fitted to outcomes by penalized maximum likelihood.

    The constructor fits it to all outcomes by `rounds` steps of Newton's method, with the L2 penalty `ridge` on w.
    """

    def __init__(self, outcomes: Sequence[Outcome], *, ridge: float, rounds: int = 12) -> None:
        states = np.stack([np.frombuffer(state, dtype=np.float32) for state, _ in outcomes]).astype(np.float64)
        self.mean, self.spread = states.mean(0), states.std(0) + 1e-6
        labels = np.array([success for _, success in outcomes], dtype=np.float64)
        scaled = self._scaled(states)
        values, vectors = np.linalg.eigh(scaled @ scaled.T)  # the outcomes span at most as many directions
        directions = values > 1e-9 * max(float(values[-1]), 1e-300)
        lengths = np.sqrt(values[directions])
        inputs = np.concatenate([vectors[:, directions] * lengths, np.ones((len(states), 1))], axis=1)
        penalty = np.full(inputs.shape[1], ridge)
        penalty[-1] = 1e-6  # of the bias
        fitted = np.zeros(inputs.shape[1])
        for _ in range(rounds):
            chances = _sigmoid(inputs @ fitted)
            slope = inputs.T @ (chances - labels) + penalty * fitted
            curvature = (inputs * (chances * (1 - chances))[:, None]).T @ inputs + np.diag(penalty)
            fitted = fitted - np.linalg.solve(curvature, slope)
        self.weights, self.bias = scaled.T @ (vectors[:, directions] / lengths) @ fitted[:-1], float(fitted[-1])

    def _scaled(self, states: Floats) -> Floats:
        return (states - self.mean) / self.spread / np.sqrt(states.shape[1])

    def chances(self, states: Sequence[npt.NDArray[np.float32]]) -> list[float]:
        """Return the probability of success for each state; a state is [width]."""
        return _sigmoid(self._scaled(np.stack(states).astype(np.float64)) @ self.weights + self.bias).tolist()


def _sigmoid(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


def survivors(chances: Sequence[float], number: int, ended: Sequence[bool], ratio: float) -> list[int]:
    """Return the indices of `number` running episodes to continue, so that about a share `ratio` of the group succeeds.

    It takes episodes from both ends of `chances`, the most and the least likely to succeed. Their numbers are chosen so
    that the expected successes among them and among the `ended` episodes are closest to `ratio` of all of these; in a
    tie, fewer likely ones continue. Chances count as equal below 1e-9; earlier ones then come first.
    """
    chances = [round(chance, 9) for chance in chances]  # equal states: a product's rows may differ in the last digit
    order = sorted(range(len(chances)), key=lambda place: (-chances[place], place))
    number = min(number, len(order))
    target = ratio * (number + len(ended)) - sum(ended)

    def of(high: int) -> list[int]:
        return [*order[:high], *order[len(order) - (number - high) :]] if high < number else order[:number]

    best = min(range(number + 1), key=lambda high: (round(abs(sum(chances[p] for p in of(high)) - target), 9), high))
    return sorted(of(best))
