"""Task families of the mail site, including those that span another site."""

from agentgym.envs.web.family import TaskFamily
from agentgym.envs.web.sites.mail.chores import (
    AnswerMail,
    FileAway,
    InvoiceSum,
    MailFact,
    Tidy,
    UpdateContact,
    WriteMail,
)
from agentgym.envs.web.sites.mail.errands import (
    AcceptMeeting,
    DueDate,
    ProblemByMail,
    ReviewByMail,
    Trip,
)
from agentgym.envs.web.sites.mail.letters import MilestoneLetter, OrderLetter, TownLetter

FAMILIES: tuple[TaskFamily, ...] = (
    MailFact(),
    InvoiceSum(),
    WriteMail(),
    AnswerMail(),
    Tidy(),
    FileAway(),
    UpdateContact(),
    AcceptMeeting(),
    ReviewByMail(),
    ProblemByMail(),
    DueDate(),
    Trip(),
    MilestoneLetter(),
    TownLetter(),
    OrderLetter(),
)
