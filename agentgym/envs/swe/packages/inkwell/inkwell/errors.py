"""What goes wrong with a template."""


class TemplateError(ValueError):
    """A template that cannot be read or rendered; `line` counts from 1."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line
