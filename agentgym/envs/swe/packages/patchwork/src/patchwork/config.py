"""Configuration files: sections, keys and values."""

import re


class ConfigError(ValueError):
    """A line that cannot be read; `line` counts from 1."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line


_REFERENCE = re.compile(r"\$\{(?:(\w+)\.)?(\w+)\}")
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "none": None}


def load_ini(text):
    """Return section -> key -> value. Numbers, words for true and false, and lists in brackets become values.

    A line that begins with a space goes on with the value before it; `${key}` and `${section.key}` stand for the value of
    another key above.
    """
    config = {"": {}}
    section, key = config[""], None
    for number, raw in enumerate(text.splitlines(), 1):
        line = _without_comment(raw).rstrip()
        if not line:
            key = None
            continue
        if line[0] in " \t":
            if key is None:
                raise ConfigError("nothing to go on with", number)
            section[key] = f"{section[key]}\n{line.strip()}"
        elif line.startswith("["):
            if not line.endswith("]"):
                raise ConfigError("a section is not closed", number)
            section, key = config.setdefault(line[1:-1].strip(), {}), None
        else:
            name, mark, value = line.partition("=")
            key = name.strip().lower()
            if not mark or not key:
                raise ConfigError("expected KEY = VALUE", number)
            section[key] = _value(_filled(value.strip(), config, section, number))
    return {name: values for name, values in config.items() if values or name}


def _without_comment(line):
    quoted = False
    for place, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter in "#;" and not quoted and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


def _filled(text, config, section, number):
    def fill(found):
        place = section if found[1] is None else config.get(found[1], {})
        if found[2] not in place:
            raise ConfigError(f"{found[0]} stands for nothing", number)
        return str(place[found[2]])

    return _REFERENCE.sub(fill, text)


def _value(text):
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1]
    if text.startswith("[") and text.endswith("]"):
        return [_value(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return text


def dump_ini(config):
    """Return a configuration as text that `load_ini` reads."""
    pieces = []
    for section, values in sorted(config.items()):
        lines = [f"[{section}]"] if section else []
        lines += [f"{key} = {_shown(value)}" for key, value in values.items()]
        pieces.append("\n".join(lines) + "\n")
    return "\n".join(pieces)


def _shown(value):
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    if isinstance(value, str) and (_value(value) != value or any(mark in value for mark in "#;")):
        return f'"{value}"'
    return str(value)


def merge_config(*configs):
    """Return one configuration of several; later ones go before earlier ones, key by key."""
    merged = {}
    for config in configs:
        for section, values in config.items():
            merged.setdefault(section, {}).update(values)
    return merged
