"""Trees of episodes that branch off from one another, for properties."""

from hypothesis import strategies as st
from trees import branch, whole

from agentgym.episodes.episode import Group


@st.composite
def any_tree(draw):
    """Groups in which each episode begins at a turn of an earlier one, or at the beginning."""
    episodes = []
    for attempt in range(draw(st.integers(1, 7))):
        size = draw(st.integers(1, 4))
        options = {"tokens": list(range(2, 2 + draw(st.integers(1, 3))))}
        options["logprobs"] = [-0.5] * len(options["tokens"])
        names = [f"{attempt}.{n}" for n in range(size)]
        parent = draw(st.sampled_from([None, *episodes]))
        at = 0 if parent is None else draw(st.integers(0, len(parent.turns) - 1))
        reward = draw(st.sampled_from([0.0, 0.5, 1.0]))
        if at == 0:
            episodes.append(whole(attempt, names, reward, **options))
        else:
            owner = next((e for e in episodes if e.attempt == parent.origin_of(at - 1)), parent)
            episodes.append(branch(attempt, owner, at, names, reward, **options))
    return Group("t", "agent", episodes)
