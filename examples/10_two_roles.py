"""A game of two roles, complete: self-play, an opponent inside the environment, and declared ceilings.

Run: python examples/10_two_roles.py
Check: cd examples && agentgym check 10_two_roles:me/Nim-v0
"""

from collections.abc import Iterator

import agentgym


def winning(piles: list[int]) -> list[tuple[int, int]]:
    """Return the moves (pile, stones) that leave an exclusive or of 0, from which the other side cannot win."""
    xor = 0
    for stones in piles:
        xor ^= stones
    return [(pile, stones - (stones ^ xor)) for pile, stones in enumerate(piles) if stones ^ xor < stones]


class Nim(agentgym.TextEnv):
    """Take the last stone. Every task can be won by the role that moves first.

    `opponent="perfect"` plays the second role without a mistake: a move that gives the win away ends the episode, since
    nothing can bring it back. `opponent="self"` lets the same agent play both roles in turn; success is then the first
    role's. Ceilings: in small positions the first or the last move of the list is right now and then. Declared bounds hold
    against the perfect opponent.
    """

    roles = ("first", "second")
    settings = ("opponent",)
    opponent: str = "perfect"
    horizon = 60
    declared = agentgym.Declarations(random_bound=0.05, ceilings={"first admissible": 0.05, "last admissible": 0.1})

    def setup(self) -> None:
        if self.opponent not in ("perfect", "self"):
            raise agentgym.BadConfig(f"opponent is {self.opponent!r}; expected 'perfect' or 'self'")

    def begin(self, task: agentgym.Task) -> str:
        self.piles = list(task.data["piles"])
        self.winner = ""
        return f"Whoever takes the last stone wins. Reply PILE STONES, for example 1 1.\n{self.picture()}"

    def act(self, action: str) -> str | agentgym.Outcome:
        if action.strip() not in self.admissible():
            return self.invalid(f"Reply PILE STONES, for example {self.admissible()[0]}.")
        self.take(*(int(word) for word in action.split()))
        if self.opponent == "perfect" and not self.winner:
            if winning(self.piles):
                return self.lose(f"{self.picture()}\nThat gives the win away.")
            pile = int(self.np_random.choice([i for i, left in enumerate(self.piles) if left]))  # all of its moves lose
            self.take(pile + 1, 1)
        if not self.winner:
            return self.picture()
        text = f"The {self.winner} role takes the last stone."
        return self.win(text) if self.winner == "first" else self.lose(text)

    def take(self, pile: int, stones: int) -> None:
        self.piles[pile - 1] -= stones
        if not any(self.piles):
            self.winner = self.role
        self.role = "second" if self.role == "first" else "first"  # who acts next

    def picture(self) -> str:
        return f"You are the {self.role} role. Piles: {' '.join(map(str, self.piles))}"

    def admissible(self) -> list[str]:
        return [f"{pile} {n}" for pile, left in enumerate(self.piles, 1) for n in range(1, left + 1)]

    def role_rewards(self) -> dict[str, agentgym.RoleReward]:  # training in self-play credits each role with its own
        return {role: agentgym.RoleReward(float(role == self.winner), role == self.winner) for role in self.roles}

    def state(self) -> tuple[list[int], str]:
        return self.piles, self.winner

    def oracle(self) -> Iterator[str]:
        while True:
            pile, stones = (winning(self.piles) or [(next(i for i, left in enumerate(self.piles) if left), 1)])[0]
            yield f"{pile + 1} {stones}"

    def expert(self) -> Iterator[str]:
        return self.oracle()  # the piles are shown

    @staticmethod
    def generate(rng, difficulty: int) -> agentgym.Task:
        while True:
            piles = [int(stones) for stones in rng.integers(1, 6 + 4 * difficulty, size=4 + difficulty)]
            if winning(piles):
                return agentgym.Task(instruction="Take the last stone.", data={"piles": piles})


agentgym.register("me/Nim-v0", Nim)


def main() -> None:
    for name, policy in {"expert": agentgym.ExpertAgent(), "random": agentgym.RandomAgent()}.items():
        episodes = agentgym.collect(policy, "me/Nim-v0", tasks=50, attempts=1)
        print(f"{name:<7} against the perfect opponent: {agentgym.success(episodes)}")

    both = agentgym.collect(agentgym.RandomAgent(), lambda: agentgym.make("me/Nim-v0", opponent="self"), tasks=50)
    for role in Nim.roles:
        wins = sum(episode.final_rewards[role] for episode in both)
        print(f"self-play at random: the {role} role wins {wins:.0f} of {len(both)}")
    print("turns of the first game by role:", " ".join(turn.role for turn in both[0].turns))


if __name__ == "__main__":
    main()
