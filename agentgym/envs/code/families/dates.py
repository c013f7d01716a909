"""Gregorian dates: shifted, clipped to months, counted and formatted."""

from datetime import date, timedelta

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, length

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LAST = "calendar.monthrange(day.year, day.month)[1]"
IMPORTS = f"import calendar\nfrom datetime import date, timedelta\nweek = {DAYS}\n"


def _day(rng: Rng) -> str:
    year = int(rng.integers(1950, 2060))
    if rng.random() < 0.25:  # month ends, including February's
        first = date(year if rng.random() < 0.5 else year // 4 * 4, int(rng.choice([1, 2, 3, 3, 5, 12])), 1)
        return str(first - timedelta(days=int(rng.integers(0, 2))))
    return str(date(year, 1, 1) + timedelta(days=int(rng.integers(0, 365))))


def _near(rng: Rng, start: str, most: int) -> str:
    return str(date.fromisoformat(start) + timedelta(days=int(rng.integers(0, most))))


def _one(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [_day(rng)]


def _two(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    start = _day(rng)
    return [start, _near(rng, start, 50 + 20 * min(difficulty, 4))]


def _many(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    start = _day(rng)
    return [[_near(rng, start, 70) for _number in range(length(rng, difficulty, 7))]]


FRAMES = (
    Frame(
        "`day` is a date string in the form YYYY-MM-DD.",
        "day",
        _one,
        IMPORTS + "day = date.fromisoformat(day)",
        gives="day",
        asks="Apply these steps in order (weeks begin on Monday):",
    ),
    Frame(
        "`start` and `end` are date strings in the form YYYY-MM-DD, and `start` is not after `end`.",
        "start, end",
        _two,
        IMPORTS + "start, end = date.fromisoformat(start), date.fromisoformat(end)\n"
        "days = [start + timedelta(days=i) for i in range((end - start).days + 1)]",
        (
            IMPORTS + "start, end = date.fromisoformat(start), date.fromisoformat(end)\n"
            "days = [start + timedelta(days=i) for i in range((end - start).days)]",
        ),
        gives="days",
        asks="Start with the list of all days from `start` to `end`, inclusive, and apply these steps in order:",
    ),
    Frame(
        "`texts` is a list of date strings in the form YYYY-MM-DD; it may be empty.",
        "texts",
        _many,
        IMPORTS + "days = [date.fromisoformat(text) for text in texts]",
        gives="days",
        asks="Start with the list of these dates and apply these steps in order:",
    ),
)
DAY = (
    Rule("Go forward $n days.", "day += timedelta(days=$n)", slots={"n": integer(1, 400, 100)}),
    Rule("Go back $n days.", "day -= timedelta(days=$n)", slots={"n": integer(1, 400, 100)}),
    Rule(
        "Go forward $n months; if that month has no such day, use its last day.",
        "m = day.month - 1 + $n\ny = day.year + m // 12\nm = m % 12 + 1\n"
        "day = date(y, m, min(day.day, calendar.monthrange(y, m)[1]))",
        (
            "m = day.month - 1 + $n\ny = day.year + m // 12\nm = m % 12 + 1\nday = date(y, m, min(day.day, 28))",
            "day += timedelta(days=30 * $n)",
        ),
        {"n": integer(1, 30, 6)},
    ),
    Rule(
        "Go forward to the next $weekday; if the day is already one, leave it unchanged.",
        "day += timedelta(days=(week.index($weekday) - day.weekday()) % 7)",
        (
            "day += timedelta(days=(week.index($weekday) - day.weekday() - 1) % 7 + 1)",
            "day -= timedelta(days=(day.weekday() - week.index($weekday)) % 7)",
        ),
        {"weekday": choice(*DAYS)},
    ),
    Rule(
        "Go to the last day of the month.",
        f"day = day.replace(day={LAST})",
        ("day = day.replace(day=min(30, calendar.monthrange(day.year, day.month)[1]))", "day = day.replace(day=1)"),
    ),
    Rule(
        "Go forward $n working days: each step goes to the next day that is neither a Saturday nor a Sunday.",
        "for _ in range($n):\n    day += timedelta(days=1)\n    while day.weekday() > 4:\n        day += timedelta(days=1)",
        (
            "day += timedelta(days=$n)",
            "for _ in range($n):\n    day += timedelta(days=1)\n    while day.weekday() > 5:\n"
            "        day += timedelta(days=1)",
        ),
        {"n": integer(1, 12, 4)},
    ),
    Rule(
        "Go to the first $weekday of the month.",
        "day = day.replace(day=1)\nday += timedelta(days=(week.index($weekday) - day.weekday()) % 7)",
        ("day = day.replace(day=1)\nday += timedelta(days=(week.index($weekday) - day.weekday() - 1) % 7 + 1)",),
        {"weekday": choice(*DAYS)},
    ),
    Rule(
        "If the year is a leap year, go forward $n days; otherwise go back $m days.",
        "day += timedelta(days=$n if calendar.isleap(day.year) else -$m)",
        ("day += timedelta(days=$n if day.year % 4 else -$m)", "day += timedelta(days=$n)"),
        {"n": integer(1, 90), "m": integer(1, 90)},
    ),
)
MANY = (
    Rule(
        "Drop Saturdays and Sundays.",
        "days = [d for d in days if d.weekday() < 5]",
        ("days = [d for d in days if d.weekday() < 6]", "days = [d for d in days if 0 < d.weekday() < 6]"),
    ),
    Rule(
        "Keep only the days that are a $weekday or a $other.",
        "days = [d for d in days if week[d.weekday()] in ($weekday, $other)]",
        (
            "days = [d for d in days if week[d.weekday()] not in ($weekday, $other)]",
            "days = [d for d in days if week[d.weekday()] == $weekday]",
        ),
        {"weekday": choice(*DAYS[:4]), "other": choice(*DAYS[4:])},
        once=True,
    ),
    Rule(
        "Drop the dates whose day of the month is less than $n.",
        "days = [d for d in days if d.day >= $n]",
        ("days = [d for d in days if d.day > $n]", "days = [d for d in days if d.month >= $n]"),
        {"n": integer(4, 14)},
        once=True,
    ),
    Rule(
        "Move every day forward by $n days.",
        "days = [d + timedelta(days=$n) for d in days]",
        slots={"n": integer(1, 60, 10)},
    ),
    Rule(
        "Keep only the earliest day of each month of each year.",
        "days = [d for d in days if d == min(o for o in days if (o.year, o.month) == (d.year, d.month))]",
        (
            "days = [d for d in days if d == max(o for o in days if (o.year, o.month) == (d.year, d.month))]",
            "days = [d for d in days if d.day == 1]",
        ),
        once=True,
    ),
    Rule(
        "Sort the days, latest first, and drop duplicates.",
        "days = sorted(set(days), reverse=True)",
        ("days = sorted(set(days))", "days = sorted(days, reverse=True)"),
    ),
    Rule(
        "Replace each day with the last day of its month.",
        f"days = [day.replace(day={LAST}) for day in days]",
        ("days = [day.replace(day=28) for day in days]",),
        once=True,
    ),
)
ENDS_OF_DAY = (
    Rule("the date as YYYY-MM-DD.", "return day.isoformat()", ("return day.strftime('%Y-%d-%m')",)),
    Rule("the English name of its weekday.", "return week[day.weekday()]", ("return week[day.isoweekday() % 7]",)),
    Rule(
        "a tuple (year, month, day) of integers.",
        "return day.year, day.month, day.day",
        ("return day.day, day.month, day.year", "return [day.year, day.month, day.day]"),
    ),
    Rule(
        "the number of the day within its year (1 for January 1).",
        "return day.timetuple().tm_yday",
        ("return 30 * (day.month - 1) + day.day", "return (day - date(day.year, 1, 1)).days"),
    ),
    Rule(
        "the date as D.M.YY, without leading zeros in the day and the month, for example 3.9.07.",
        "return f'{day.day}.{day.month}.{day.year % 100:02}'",
        ("return day.strftime('%d.%m.%y')",),
    ),
)
ENDS_OF_DAYS = (
    Rule("the list of days as YYYY-MM-DD.", "return [d.isoformat() for d in days]"),
    Rule("the number of days in the list.", "return len(days)", ("return len(set(d.month for d in days))",)),
    Rule(
        "a dictionary from the English name of each weekday that occurs to how many times it occurs.",
        "names = [week[d.weekday()] for d in days]\nreturn {name: names.count(name) for name in names}",
        ("names = [week[d.isoweekday() % 7] for d in days]\nreturn {name: names.count(name) for name in names}",),
    ),
    Rule(
        "the number of days between the earliest and the latest, or 0 if there are fewer than two.",
        "return (max(days) - min(days)).days if days else 0",
        ("return (max(days) - min(days)).days + 1 if days else 0", "return len(days)"),
    ),
    Rule(
        "the sorted list of tuples (year, month) that contain at least one of the days, without duplicates.",
        "return sorted({(d.year, d.month) for d in days})",
        ("return sorted({(d.month, d.year) for d in days})", "return [(d.year, d.month) for d in days]"),
    ),
)
FAMILY = ProgramFamily(
    "dates",
    FRAMES,
    typed("day", DAY) + typed("days", MANY),
    typed("day", ENDS_OF_DAY) + typed("days", ENDS_OF_DAYS),
    names=("schedule", "due", "calendar_entry", "plan_day", "remind"),
)
