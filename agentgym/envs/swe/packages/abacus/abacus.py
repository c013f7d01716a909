"""Arithmetic in text: read, evaluated, simplified, differentiated.

>>> evaluate("2 * (x + 1) ^ 2", x=2)
18
"""

import math
import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(?:(\d+\.\d*|\.\d+|\d+)|([A-Za-z_]\w*)|(<=|>=|==|!=|[-+*/%^(),<>]))")
BINARY = {
    "<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1,
    "+": 2, "-": 2,
    "*": 3, "/": 3, "%": 3,
    "^": 5,
}  # fmt: skip
"""Operators and how closely they bind."""
NEGATION = 4
RIGHT = {"^"}
CONSTANTS = {"pi": math.pi, "e": math.e}
FUNCTIONS = {
    "abs": (abs, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "max": (max, 1, None),
    "min": (min, 1, None),
    "round": (round, 1, 2),
    "sqrt": (math.sqrt, 1, 1),
    "log": (math.log, 1, 2),
    "exp": (math.exp, 1, 1),
    "sin": (math.sin, 1, 1),
    "cos": (math.cos, 1, 1),
    "if": (None, 3, 3),
}
"""Functions, and how many arguments they take at least and at most."""


class ExpressionError(ValueError):
    """Text that is no expression, or one that has no value; `position` counts characters from 0."""

    def __init__(self, message, position=None):
        super().__init__(message if position is None else f"{message} at {position}")
        self.position = position


@dataclass(frozen=True)
class Number:
    """A number in an expression."""

    value: float


@dataclass(frozen=True)
class Name:
    """A variable or constant."""

    name: str


@dataclass(frozen=True)
class Negative:
    """A minus in front of something."""

    inner: object


@dataclass(frozen=True)
class Binary:
    """Two parts and the operator between them."""

    operator: str
    left: object
    right: object


@dataclass(frozen=True)
class Call:
    """A function and its arguments."""

    name: str
    arguments: tuple


# Reading


def tokenize(text):
    """Return (kind, text, position) for each number, name and sign, and an end."""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionError(f"unexpected {text[start]!r}", start)
        kind = ("number", "name", "sign")[match.lastindex - 1]
        found.append((kind, match[match.lastindex], match.start(match.lastindex)))
        at = match.end()
    found.append(("end", "", len(text)))
    return found


class Parser:
    """Reads an expression by how closely its operators bind."""

    def __init__(self, text):
        self.tokens = tokenize(text)
        self.at = 0

    def parse(self):
        """Return the whole expression."""
        found = self.expression(0)
        kind, text, position = self.tokens[self.at]
        if kind != "end":
            raise ExpressionError(f"unexpected {text!r}", position)
        return found

    def take(self):
        """Return the current token and go on to the next."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, sign):
        """Go on to the next token if the current one is a sign."""
        if self.tokens[self.at][:2] == ("sign", sign):
            self.at += 1
            return True
        return False

    def expect(self, sign):
        """Go past a sign that must be here."""
        if not self.accept(sign):
            raise ExpressionError(f"expected {sign!r}", self.tokens[self.at][2])

    def expression(self, least):
        """Read what binds at least so closely."""
        left = self.prefix()
        while True:
            kind, text, _ = self.tokens[self.at]
            binding = BINARY.get(text) if kind == "sign" else None
            if binding is None or binding < least:
                return left
            self.at += 1
            right = self.expression(binding if text in RIGHT else binding + 1)
            left = Binary(text, left, right)

    def prefix(self):
        """Read a number, a name, a call, a sign in front, or something in brackets."""
        kind, text, position = self.take()
        if kind == "number":
            return Number(float(text) if "." in text else int(text))
        if kind == "name":
            if self.accept("("):
                return self.call(text, position)
            return Name(text)
        if text == "-":
            return Negative(self.expression(NEGATION))
        if text == "+":
            return self.expression(NEGATION)
        if text == "(":
            inner = self.expression(0)
            self.expect(")")
            return inner
        raise ExpressionError("unexpected end" if kind == "end" else f"unexpected {text!r}", position)

    def call(self, name, position):
        """Read the arguments of a function, whose bracket is open."""
        if name not in FUNCTIONS:
            raise ExpressionError(f"no function {name!r}", position)
        arguments = []
        if not self.accept(")"):
            arguments.append(self.expression(0))
            while self.accept(","):
                arguments.append(self.expression(0))
            self.expect(")")
        _, least, most = FUNCTIONS[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            raise ExpressionError(f"{name} does not take {len(arguments)} arguments", position)
        return Call(name, tuple(arguments))


def parse(text):
    """Return the tree of an expression; ExpressionError with the position where it cannot be read."""
    return Parser(text).parse()


# Values


def evaluate(expression, **values):
    """Return the value of an expression (text or a tree) where its variables have these values."""
    tree = parse(expression) if isinstance(expression, str) else expression
    return _value(tree, {**CONSTANTS, **values})


def _value(tree, values):
    match tree:
        case Number(value):
            return value
        case Name(name):
            if name not in values:
                raise ExpressionError(f"no value for {name!r}")
            return values[name]
        case Negative(inner):
            return -_value(inner, values)
        case Call("if", (condition, yes, no)):
            return _value(yes, values) if _value(condition, values) else _value(no, values)
        case Call(name, arguments):
            try:
                return FUNCTIONS[name][0](*(_value(one, values) for one in arguments))
            except (ValueError, OverflowError) as error:
                raise ExpressionError(f"{name} has no value here: {error}") from error
        case Binary(operator, left, right):
            return _apply(operator, _value(left, values), _value(right, values))
    raise TypeError(f"no expression: {tree!r}")


def _apply(operator, left, right):
    if operator in ("/", "%") and right == 0:
        raise ExpressionError("division by zero")
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        exact = isinstance(left, int) and isinstance(right, int) and left % right == 0
        return left // right if exact else left / right
    if operator == "%":
        return left % right
    if operator == "^":
        return _power(left, right)
    results = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return {**results, "==": left == right, "!=": left != right}[operator]


def _power(base, exponent):
    if base == 0 and exponent < 0:
        raise ExpressionError("division by zero")
    if base < 0 and exponent != int(exponent):
        raise ExpressionError("a root of a negative number")
    return base**exponent


def variables(expression):
    """Return the names that need a value, in the order of their first occurrence."""
    tree = parse(expression) if isinstance(expression, str) else expression
    found = []
    left = [tree]
    while left:
        part = left.pop(0)
        match part:
            case Name(name):
                if name not in CONSTANTS and name not in found:
                    found.append(name)
            case Negative(inner):
                left.insert(0, inner)
            case Binary(_, one, two):
                left[:0] = [one, two]
            case Call(_, arguments):
                left[:0] = arguments
    return found


# Text


def show(tree, least=0):
    """Return an expression as text, with no more brackets than it needs."""
    match tree:
        case Number(value):
            return str(value) if value >= 0 or least == 0 else f"({value})"
        case Name(name):
            return name
        case Call(name, arguments):
            return f"{name}({', '.join(show(one) for one in arguments)})"
        case Negative(inner):
            text = "-" + show(inner, NEGATION)
            return f"({text})" if least > NEGATION else text
        case Binary(operator, left, right):
            binding = BINARY[operator]
            sides = (binding + 1, binding) if operator in RIGHT else (binding, binding + 1)
            text = f"{show(left, sides[0])} {operator} {show(right, sides[1])}"
            return f"({text})" if binding < least else text
    raise TypeError(f"no expression: {tree!r}")


# Algebra


def simplify(tree):
    """Return an expression without what does nothing: sums with 0, products with 1, numbers that can be worked out."""
    match tree:
        case Negative(inner):
            return _negated(simplify(inner))
        case Call(name, arguments):
            return Call(name, tuple(simplify(one) for one in arguments))
        case Binary(operator, left, right):
            return _combined(operator, simplify(left), simplify(right))
    return tree


def _negated(inner):
    if isinstance(inner, Negative):
        return inner.inner
    if isinstance(inner, Number):
        return Number(-inner.value)
    return Negative(inner)


def _combined(operator, left, right):
    zero, one = Number(0), Number(1)
    if isinstance(left, Number) and isinstance(right, Number) and not (operator in ("/", "%") and right == zero):
        return Number(_apply(operator, left.value, right.value))
    if operator == "+":
        if left == zero:
            return right
        if right == zero:
            return left
        if isinstance(right, Negative):
            return Binary("-", left, right.inner)
    if operator == "-":
        if right == zero:
            return left
        if left == zero:
            return _negated(right)
        if left == right:
            return zero
    if operator == "*":
        if zero in (left, right):
            return zero
        if left == one:
            return right
        if right == one:
            return left
    if operator == "/" and right == one:
        return left
    if operator == "^":
        if right == zero:
            return one
        if right == one:
            return left
    return Binary(operator, left, right)


def derivative(expression, name):
    """Return the derivative of an expression by a variable, simplified; ExpressionError for what has none here."""
    tree = parse(expression) if isinstance(expression, str) else expression
    return simplify(_derived(tree, name))


def _derived(tree, name):
    match tree:
        case Number(_):
            return Number(0)
        case Name(found):
            return Number(1 if found == name else 0)
        case Negative(inner):
            return Negative(_derived(inner, name))
        case Binary("+" | "-" as operator, left, right):
            return Binary(operator, _derived(left, name), _derived(right, name))
        case Binary("*", left, right):
            return Binary("+", Binary("*", _derived(left, name), right), Binary("*", left, _derived(right, name)))
        case Binary("/", left, right):
            above = Binary("-", Binary("*", _derived(left, name), right), Binary("*", left, _derived(right, name)))
            return Binary("/", above, Binary("^", right, Number(2)))
        case Binary("^", base, Number(exponent)):
            outer = Binary("*", Number(exponent), Binary("^", base, Number(exponent - 1)))
            return Binary("*", outer, _derived(base, name))
        case Call("sin", (inner,)):
            return Binary("*", Call("cos", (inner,)), _derived(inner, name))
        case Call("cos", (inner,)):
            return Negative(Binary("*", Call("sin", (inner,)), _derived(inner, name)))
        case Call("exp", (inner,)):
            return Binary("*", tree, _derived(inner, name))
        case Call("log", (inner,)):
            return Binary("/", _derived(inner, name), inner)
    raise ExpressionError(f"no derivative of {show(tree)}")
