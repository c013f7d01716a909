"""The customer: a program with a goal that answers what it is asked, agrees to what it wants, and volunteers nothing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.desk.domain import Domain, Fact, Intent, Topic
from agentgym.envs.desk.people import MANNERS
from agentgym.envs.desk.statements import by_matter, mentions

Matter = dict[str, Any]
LONGEST = 2000
"""Most characters of a message that a customer reads."""
WHO = {
    "name": Topic(r"\bnames?\b|\bwho (?:am i|are you|is)\b|speaking with", "your full name", "My name is {}."),
    "birth_date": Topic(r"date of birth|birth ?da(?:te|y)|\bdob\b|\bborn\b", "your date of birth", "I was born on {}."),
    "postcode": Topic(r"post(?:al)? ?code|\bzip\b", "your postcode", "My postcode is {}."),
}
_ASKING = re.compile(
    r"\?|\b(?:please|could|can|may|tell|give|provide|share|need|require|what|which|when|where|who|how|confirm|verify|enter"
    r"|state|know|ask|send|specify|want|would|let me)\b"
)
_CONSENT = re.compile(
    r"\b(?:confirm|proceed|go ahead|carry on|shall i|should i|may i|can i|agree|accept|approve|yes or no"
    r"|(?:do|would) you (?:still )?(?:want|like|wish)|is (?:that|this|it) (?:all right|alright|ok|okay|fine|correct|good))\b"
    r"|\bok(?:ay)?\?|\ball right\?|\bcorrect\?"
)
_MORE = re.compile(
    r"anything else|something else|any(?:thing)? (?:other|further|more)|other (?:question|request|matter|issue)"
    r"|what else|else i can"
)
_HELP = re.compile(
    r"how (?:can|may|could) i help|what can i do|what (?:is|seems to be) the (?:problem|matter|issue)|why .*call"
)


@dataclass
class Mood:
    """What has happened between customer and agent; part of the state."""

    opened: int
    """Matters that were raised."""
    heard: set[str]
    """What was revealed: topics, those of a matter with its number."""
    told: dict[tuple[int, str], str]
    """By matter and kind, the agent's word in force: the last value stated alone."""
    agreed: dict[int, bool]
    """By matter, whether the customer said yes or no to it."""


class User:
    """The customer of one task."""

    def __init__(self, domain: type[Domain], data: Mapping[str, Any], mood: Mood) -> None:
        self.domain, self.data, self.mood = domain, data, mood
        self.matters: list[Matter] = data["matters"]
        self.words: dict[str, str] = MANNERS[data["manner"]]

    def greeting(self) -> str:
        """Return the first message."""
        return f"{self.words['hello']} {self.opening(0)}"

    def opening(self, number: int) -> str:
        """Return the words in which a matter is raised."""
        matter = self.matters[number]
        intent: Intent = self.domain.intents[matter["intent"]]
        wording: int = matter["wording"]
        return intent.openings[wording]

    def reply(self, text: str, verified: bool) -> str:
        """Take in a message of the agent and return the answer."""
        if len(text) > LONGEST:
            return "That is too long for me. Please be brief."
        stated = by_matter(text, [matter["ref"] for matter in self.open_matters()])
        said = [*self._answers(text), *self._listen(text, stated, verified), *self._consent(text, stated, verified)]
        lower = text.lower()
        if _MORE.search(lower):
            said.append(self._more())
        elif not said and _HELP.search(lower):
            said.append(self.opening(self.mood.opened - 1))
        if not said:
            said.append(self.words["thanks"] if any(stated.values()) or "?" not in text else self.words["lost"])
        return " ".join(said)

    def open_matters(self) -> list[Matter]:
        """Return the matters that were raised."""
        return self.matters[: self.mood.opened]

    # Being asked

    def _answers(self, text: str) -> list[str]:
        """Return an answer to each thing that is asked, each once."""
        parts = [part for part in re.split(r"(?<=[.!?\n;])\s+", text.lower()) if _ASKING.search(part)]
        said: list[str] = []
        for name, topic in WHO.items():
            if any(re.search(topic.pattern, part) for part in parts):
                self.mood.heard.add(name)
                said.append(topic.answer.format(self.data["who"][name]))
        for number, matter in enumerate(self.open_matters()):
            said += self._about(number, matter, parts)
        return list(dict.fromkeys(said))

    def _about(self, number: int, matter: Matter, parts: Sequence[str]) -> list[str]:
        said: list[str] = []
        noun, which = self.domain.noun, f"For the {matter['label']}: " if self.mood.opened > 1 else ""
        if any(
            re.search(rf"{noun} ?(?:number|id|code|#)|reference|confirmation (?:number|code)|which {noun}", part)
            for part in parts
        ):
            self.mood.heard.add(f"{number} ref")
            said.append(which + (matter["hint"] or f"The {noun} is {matter['ref']}."))
        for name, topic in self.domain.intents[matter["intent"]].topics.items():
            if any(re.search(topic.pattern, part) for part in parts):
                self.mood.heard.add(f"{number} {name}")
                said.append(which + topic.answer.format(matter["details"][name]))
        return said

    def _more(self) -> str:
        if self.mood.opened == len(self.matters):
            self.mood.heard.add("all")
            return "No, that is all."
        self.mood.opened += 1
        return f"Yes. {self.opening(self.mood.opened - 1)}"

    # Being told

    def _listen(self, text: str, stated: Mapping[str, Mapping[str, list[str]]], verified: bool) -> list[str]:
        """Take the agent at its word: the last value of a kind that was stated alone; several at once are no word."""
        said: list[str] = []
        for number, matter in enumerate(self.open_matters()):
            for kind in sorted({fact[0] for fact in facts_of(matter)}):
                found = stated.get(matter["ref"], {}).get(kind, ())
                known = set(matter["choices"]) - {value for _, value in facts_of(matter)}
                found = [value for value in found if value not in known]  # what the customer chose is no news
                if not found:
                    continue
                if not verified:
                    said.append("Do you not have to check who I am first?")
                elif len(found) == 1:
                    self.mood.told[number, kind] = found[0]
                else:
                    self.mood.told.pop((number, kind), None)
                    said.append(f"You name several {PLURAL[kind]} for {matter['ref']}. Which one is it?")
        return list(dict.fromkeys(said))

    def _consent(self, text: str, stated: Mapping[str, Mapping[str, list[str]]], verified: bool) -> list[str]:
        """Say yes or no to what is proposed, where something is."""
        if not _CONSENT.search(text.lower()):
            return []
        said: list[str] = []
        for number, matter in enumerate(self.open_matters()):
            if matter["ref"] not in stated or not verified:
                continue
            missing = [choice for choice in matter["choices"] if not mentions(text, choice)]
            missing += [kind for kind, _ in facts_of(matter) if (number, kind) not in self.mood.told]
            if len(missing) == len(matter["choices"]) + len(facts_of(matter)) and missing:
                continue  # nothing of it was named: the message asks for something else
            if missing:
                words = [PLURAL[one][:-1] if one in PLURAL else "what I asked for" for one in missing]
                said.append(
                    f"I cannot say yes yet: for {matter['ref']} I have not heard {' and '.join(sorted(set(words)))}."
                )
            else:
                said.append(self._decide(number, matter))
        return said

    def _decide(self, number: int, matter: Matter) -> str:
        most = matter["most"]
        paid = self.mood.told.get((number, "money"), "$0.00")
        if most is not None and int(re.sub(r"\D", "", paid)) > most:
            self.mood.agreed[number] = False
            return f"No, that is too much for me. Leave {matter['ref']} as it is."
        self.mood.agreed[number] = True
        return self.words["yes"]


PLURAL = {"money": "amounts", "date": "dates", "number": "numbers"}


def facts_of(matter: Mapping[str, Any]) -> list[Fact]:
    """Return what has to be told about a matter."""
    return [(kind, value) for kind, value in matter["facts"]]
