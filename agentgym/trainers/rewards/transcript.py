"""An episode as a judge reads it: text in which nothing that was said can end its own part."""

import json
import re

from agentgym.episodes.episode import Episode, Turn

_CONTROL = re.compile(r"<(?=[^\s=])|\[(?=/?[A-Z_]+\])|[\x7f-\x9f\u2028\u2029]")
"""What begins a control string of a chat template (`<|im_end|>`, `</s>`, `[INST]`), and ends of lines that JSON leaves."""
_LEAST = 100  # characters shown of a text, however many there are


def transcript(episode: Episode, characters: int) -> str:
    """Return the task, the turns and the end as JSON lines; each text has the same share of so many characters.

    Of a longer text the middle is left out. In the JSON, `<` and `[` are escaped where they could begin a control string,
    which a server would read as its own.
    """
    share = max(_LEAST, characters // (2 * len(episode.turns) + 2))
    lines: list[dict[str, str | int | bool]] = [{"task": cut(episode.instruction, share)}]
    for number, turn in enumerate(episode.turns, 1):
        lines.append({"turn": number, "observation": cut(turn.observation, share), "reply": cut(_said(turn), share)})
    lines.append({"end": cut(episode.final_observation, share), "success": bool(episode.success)})
    return "\n".join(harmless(json.dumps(line, ensure_ascii=False)) for line in lines)


def _said(turn: Turn) -> str:
    return turn.text or turn.action


def cut(text: str, most: int) -> str:
    """Return a text without its middle where it has more than so many characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # halves of surrogate pairs, which no request could hold
    if len(text) <= most:
        return text
    left = len(text) - most
    return f"{text[: most // 2]} ({left} characters left out) {text[len(text) - (most - most // 2) :]}"


def harmless(line: str) -> str:
    """Return a line of JSON in which no text holds a control string that a server would read as its own."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
