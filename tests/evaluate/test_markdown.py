"""The summary as Markdown: numbers to the letter, and names that cannot become markup."""

from pathlib import Path

import agentgym
from agentgym import Episode
from agentgym.evaluate.markdown import as_markdown, plain
from agentgym.evaluate.run import EvaluationPlan, evaluate
from agentgym.evaluate.summary import summarize

CHECK = {"checked": 4, "found": 1, "examples": ["a|b"], "how": "by hand", "why": ""}
UNCHECKED = {"checked": 0, "found": 0, "examples": [], "how": "", "why": "no <answers>"}


def test_the_page_word_for_word() -> None:
    episodes = [
        Episode("me/W-v0", str(i // 2), "g", 0, attempt=i % 2, success=won, reason="success", reward=float(won))
        for i, won in enumerate((True, True, True, False))
    ]
    for episode in episodes[:2]:
        episode.labels = {"type": "pick_up"}
    summary = summarize(episodes)
    summary["envs"]["me/W-v0"]["success"] |= {"low": 0.25, "high": 1.0}
    summary |= {
        "comparable": "no protocol",
        "contamination": {"me/W-v0": {"split_overlap": CHECK, "answer_in_prompt": UNCHECKED}},
    }
    lines = as_markdown(summary, {"options": {"model": "hf:x", "temperature": 0.5}, "sessions": []}).split("\n")
    assert lines[:6] == ["# Evaluation", "", "- model: hf:x", "- temperature: 0.5", "", "**no protocol**"]
    start = lines.index("**no protocol**") + 2
    assert lines[start] == (
        "| environment | success [95 %] | tasks | episodes | infrastructure errors | pass@2 | pass^2 | reward | turns "
        "| tokens | seconds | invalid | unparsed |"
    )
    assert lines[start + 1] == "| :-- |" + " --: |" * 12
    env = "| **me/W-v0** | 75.0 % [25.0, 100.0] | 2 | 4 | 0 (0.0 %) | 100.0 % | 50.0 % | 0.75 | 0.00 | 0.00 | 0.00 | - | - |"
    assert lines[start + 2] == env
    assert lines[start + 3].startswith(r"| pick\_up | 100.0 % [")
    assert lines[start + 4].startswith("| **all** | 75.0 % [")
    assert lines[-4:-1] == [
        "",
        r"- me/W-v0, split overlap: 1 of 4 tasks (by hand), such as a\|b",
        "- me/W-v0, answer in prompt: not checked; no &lt;answers&gt;",
    ]


def test_nothing_in_a_name_is_markup() -> None:
    assert plain("a|b\n# [x](y) <img src=x> *b* `c` \x1b[31m @me ~") == (
        r"a\|b \# \[x\](y) &lt;img src=x&gt; \*b\* \`c\` \\x1b\[31m \@me \~"
    )


def test_an_evaluation_writes_it(tmp_path: Path) -> None:
    evaluate(
        agentgym.OracleAgent(), EvaluationPlan(("rlvr/GuessNumber-v0",), tasks=2), tmp_path, options={"policy": "oracle"}
    )
    text = (tmp_path / "summary.md").read_text()
    assert "- policy: oracle\n" in text and "| **rlvr/GuessNumber-v0** | 100.0 % [" in text
    assert "**protocol" not in text and "not comparable with published numbers**" in text
