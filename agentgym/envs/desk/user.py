"""The customer: a program with a goal that answers questions, agrees to what it wants, and volunteers nothing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.desk.domain import Domain, Fact, Intent, Topic
from agentgym.envs.desk.people import MANNERS
from agentgym.envs.desk.statements import by_matter, mentions

Matter = dict[str, Any]
LONGEST = 2000
"""Maximum length of a message that a customer reads, in characters."""
WHO = {
    "name": Topic(r"\bnames?\b|\bwho (?:am i|are you|is)\b|speaking with", "your full name", "My name is {}."),
    "birth_date": Topic(r"date of birth|birth ?da(?:te|y)|\bdob\b|\bborn\b", "your date of birth", "I was born on {}."),
    "zip_code": Topic(r"post(?:al)? ?code|\bzip\b", "your ZIP code", "My ZIP code is {}."),
}
_ASKING = re.compile(
    r"\?|\b(?:please|could|can|may|tell|give|provide|share|need|require|what|which|when|where|who|how|confirm|verify|enter"
    r"|state|know|ask|send|specify|want|let me)\b"
)
_CONSENT = re.compile(
    r"\b(?:confirm|proceed|go[- ]ahead|carry on|shall i|should i|may i|can i|agree\w*|accept\w*|approv\w+|consent|permission"
    r"|yes or no|yes/no|say yes|reply yes|happy with|sounds? good|does (?:that|this) work|works? for you|are you sure"
    r"|(?:do|would) you (?:still )?(?:want|like|wish)|is (?:that|this|it) (?:all right|alright|ok|okay|fine|correct|good))\b"
    r"|\bok(?:ay)?\?|\ball right\?|\bcorrect\?|\bright\?"
)
_MORE = re.compile(
    r"anything else|something else|any(?:thing)? (?:other|further|more)|other (?:question|request|matter|issue)"
    r"|what else|else i can"
)
_WHICH = r"number|\bid\b|code|#|details?"
"""Words that can follow the noun (order, booking, …) in a question for a reference."""
_THING = (
    r"reference|confirmation (?:number|code)|which (?:one|item|product|thing)|what (?:item|product|thing)"
    r"|more details|describe"
)
_NEVER_KNOWN = re.compile(r"e-?mail|\bphone|password|customer (?:id|number)|account number|social security|\bpin\b")
_HELP = re.compile(
    r"how (?:can|may|could) i (?:help|assist|be of)|what can i do|what brings you"
    r"|what (?:is|seems to be) the (?:problem|matter|issue)|why .*call"
)


@dataclass
class Mood:
    """State of the conversation between customer and agent."""

    opened: int
    """Number of matters raised so far."""
    heard: set[str]
    """Topics revealed so far, such as "name" or, for matter 0, "0 ref"; "all" once the customer has nothing else."""
    stated: dict[tuple[int, str], str]
    """(number of a matter, kind) -> value that the agent last stated as the only one of this kind in a message."""
    agreed: dict[int, dict[str, str] | None]
    """Number of a matter -> (kind -> stated value) at the customer's last yes; None after a no."""


class User:
    """The program that plays the customer of one task."""

    def __init__(self, domain: type[Domain], data: Mapping[str, Any], mood: Mood) -> None:
        self.domain, self.data, self.mood = domain, data, mood
        self.matters: list[Matter] = data["matters"]
        self.words: dict[str, str] = MANNERS[data["manner"]]

    def greeting(self) -> str:
        """Return the customer's first message."""
        return f"{self.words['hello']} {self.opening(0)}"

    def opening(self, number: int) -> str:
        """Return the sentence that raises a matter."""
        matter = self.matters[number]
        intent: Intent = self.domain.intents[matter["intent"]]
        wording: int = matter["wording"]
        return intent.openings[wording]

    def reply(self, text: str, verified: bool) -> str:
        """Process a message from the agent and return the customer's answer.

        `verified` is True if the agent has checked the customer's identity.
        """
        if len(text) > LONGEST:
            return "That is too long for me. Please be brief."
        stated = by_matter(text, [matter["ref"] for matter in self.open_matters()])
        lower = text.lower()
        answers = self._answers(lower)
        is_question = bool(answers)
        answers += self._listen(stated, verified)
        if verified and _CONSENT.search(lower):
            answers += self._consent(text, stated, is_question)
        if _MORE.search(lower):
            answers.append(self._more())
        elif not answers and _NEVER_KNOWN.search(lower):
            answers.append("I cannot tell you that.")
        elif not answers and _HELP.search(lower):
            answers.append(self.opening(self.mood.opened - 1))
        if not answers:
            answers.append(self.words["thanks"] if any(stated.values()) or "?" not in text else self.words["lost"])
        return " ".join(answers)

    def open_matters(self) -> list[Matter]:
        """Return the matters raised so far."""
        return self.matters[: self.mood.opened]

    # Answering questions

    def _answers(self, lower: str) -> list[str]:
        """Return the answers to the questions in a lower-case message, without duplicates."""
        parts = [part for part in re.split(r"(?<=[.!?\n;])\s+", lower) if _ASKING.search(part)]
        answers: list[str] = []
        for name, topic in WHO.items():
            if requests_value(topic.pattern, self.data["who"][name], parts):
                self.mood.heard.add(name)
                answers.append(topic.answer.format(self.data["who"][name]))
        for number, matter in enumerate(self.open_matters()):
            answers += self._about(number, matter, parts)
        return list(dict.fromkeys(answers))

    def _about(self, number: int, matter: Matter, parts: Sequence[str]) -> list[str]:
        answers: list[str] = []
        noun, which = self.domain.noun, f"For the {matter['label']}: " if self.mood.opened > 1 else ""
        if requests_value(rf"{noun}(?:'s)? ?(?:{_WHICH})|(?:which|what) {noun}|{_THING}", matter["ref"], parts):
            self.mood.heard.add(f"{number} ref")
            answers.append(which + (matter["hint"] or f"The {noun} is {matter['ref']}."))
        for name, topic in self.domain.intents[matter["intent"]].topics.items():
            if requests_value(topic.pattern, matter["details"][name], parts):
                self.mood.heard.add(f"{number} {name}")
                answers.append(which + topic.answer.format(matter["details"][name]))
        return answers

    def _more(self) -> str:
        if self.mood.opened == len(self.matters):
            self.mood.heard.add("all")
            return "No, that is all."
        self.mood.opened += 1
        return f"Yes. {self.opening(self.mood.opened - 1)}"

    # Listening to statements

    def listen(self, text: str, verified: bool) -> None:
        """Process a message's statements without answering; ignore a message that is too long.

        `verified` is True if the agent has checked the customer's identity.
        """
        if len(text) > LONGEST:
            return
        self._listen(by_matter(text, [matter["ref"] for matter in self.open_matters()]), verified)

    def _listen(self, stated: Mapping[str, Mapping[str, list[str]]], verified: bool) -> list[str]:
        """Store the values that the message states, if the customer is `verified`; return the customer's objections.

        `stated` is the result of `by_matter`. Several values of one kind for a matter do not count as a statement, and
        discard the previous value.
        """
        answers: list[str] = []
        for number, matter in enumerate(self.open_matters()):
            for kind in sorted({fact[0] for fact in facts_of(matter)}):
                stated_values = stated.get(matter["ref"], {}).get(kind, ())
                offered = {*matter["choices"], *matter["details"].values()}
                known = offered - {value for _, value in facts_of(matter)}
                stated_values = [
                    value for value in stated_values if value not in known
                ]  # the customer's own choice is not news
                if not stated_values:
                    continue
                if not verified:
                    answers.append("Do you not have to check who I am first?")
                elif len(stated_values) == 1:
                    self.mood.stated[number, kind] = stated_values[0]
                else:
                    self.mood.stated.pop((number, kind), None)
                    answers.append(f"You name several {PLURAL[kind]} for {called(matter)}. Which one is it?")
        return list(dict.fromkeys(answers))

    def _consent(self, text: str, stated: Mapping[str, Mapping[str, list[str]]], is_question: bool) -> list[str]:
        """Return the customer's answer to each proposal in a message: yes, no, or what is missing for a decision.

        `stated` is the result of `by_matter`; `is_question` is True if the message also asks a question.
        """
        answers: list[str] = []
        for number, matter in enumerate(self.open_matters()):
            if matter["ref"] not in stated:
                continue
            mentioned = [choice for choice in matter["choices"] if mentions(text, choice)]
            kinds_stated = [kind for kind, _ in facts_of(matter) if (number, kind) in self.mood.stated]
            named = bool(mentioned) or any(kind in stated[matter["ref"]] for kind in kinds_stated)
            if not named and (is_question or not kinds_stated):
                continue
            missing = [] if len(mentioned) == len(matter["choices"]) else ["what I asked for"]
            missing += sorted(f"the {PLURAL[kind][:-1]}" for kind, _ in facts_of(matter) if kind not in kinds_stated)
            if missing:
                answers.append(
                    f"I cannot say yes yet: for {called(matter)} I have not heard {' and '.join(missing)} from you."
                )
            else:
                answers.append(self._decide(number, matter))
        if not answers and not is_question and not _MORE.search(text.lower()) and not _HELP.search(text.lower()):
            answers.append(f"Yes to what? Name the {self.domain.noun} and what it comes to, please.")
        return answers

    def _decide(self, number: int, matter: Matter) -> str:
        most = matter["most"]
        paid = self.mood.stated.get((number, "money"), "$0.00")
        if most is not None and int(re.sub(r"\D", "", paid)) > most:
            self.mood.agreed[number] = None
            return "No, that is too much for me. Leave it as it is, please."
        self.mood.agreed[number] = {kind: self.mood.stated[number, kind] for kind, _ in facts_of(matter)}
        return self.words["yes"]


PLURAL = {"money": "amounts", "date": "dates", "number": "numbers"}


def requests_value(pattern: str, value: str, parts: Sequence[str]) -> bool:
    """Return whether a sentence in `parts` asks about a topic: it matches `pattern` and does not contain `value`."""
    return any(re.search(pattern, part) and not mentions(part, value) for part in parts)


def called(matter: Matter) -> str:
    """Return the customer's name for a matter: its reference, or a description if the customer does not know it."""
    return f"the {matter['label']}" if matter["hint"] else matter["ref"]


def facts_of(matter: Mapping[str, Any]) -> list[Fact]:
    """Return the facts that the agent must tell about a matter."""
    return [(kind, value) for kind, value in matter["facts"]]


def agreed(mood: Mood, number: int, facts: Iterable[Fact]) -> bool:
    """Return whether the customer consented to a matter with exactly these facts, such as the amount."""
    return mood.agreed.get(number) == dict(facts)
