"""Write an episode as text for a judge, so that no content can pass for another part of the text."""

import json
import re

from agentgym.episodes.episode import Episode, Turn

_CONTROL = re.compile(r"<(?=[^\s=])|\[(?=/?[A-Z_]+\])|[\x7f-\x9f\u2028\u2029]")
"""Starts of control strings of chat templates (`<|im_end|>`, `</s>`, `[INST]`), and line ends that JSON does not escape."""
_LEAST = 100  # minimum characters of a text, for any number of texts


def transcript(episode: Episode, characters: int) -> str:
    """Return the task, the turns and the end of an episode as JSON lines of about `characters` in total.

    Each text gets the same share and is cut in the middle if it is longer. `<` and `[` are escaped if they could begin
    a control string that a server would interpret.
    """
    share = max(_LEAST, characters // (2 * len(episode.turns) + 2))
    lines: list[dict[str, str | int | bool]] = [{"task": cut(episode.instruction, share)}]
    for number, turn in enumerate(episode.turns, 1):
        lines.append({"turn": number, "observation": cut(turn.observation, share), "reply": cut(_reply(turn), share)})
    lines.append({"end": cut(episode.final_observation, share), "success": bool(episode.success)})
    return "\n".join(harmless(json.dumps(line, ensure_ascii=False)) for line in lines)


def _reply(turn: Turn) -> str:
    return turn.text or turn.action


def cut(text: str, most: int) -> str:
    """Return `text` with `?` for lone surrogates, cut in the middle to `most` characters plus the number left out."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # replaces lone surrogates, which no request can contain
    if len(text) <= most:
        return text
    left = len(text) - most
    return f"{text[: most // 2]} ({left} characters left out) {text[len(text) - (most - most // 2) :]}"


def harmless(line: str) -> str:
    """Return a line of JSON in which control strings that a server would interpret are escaped."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
