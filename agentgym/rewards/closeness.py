"""Equality of two sympy numbers: exact if both are rational, else to many digits relative to their size.

This replaces math-verify's comparison, where numbers are equal if they differ by less than 1e-15 (1e-6 with a decimal),
even if the numbers themselves are smaller, such as `1/21!` and `1/20!`.
"""

import importlib
from functools import lru_cache
from typing import Any

DIGITS = 15
"""Significant digits to which a difference is computed."""
MOST_DIGITS = 5000
"""Maximum working precision in digits; a smaller difference counts as 0 (to tell `1 - e^{-9999}` from 1 takes 4,343)."""
TOLERANCE = 1e-6
"""Relative tolerance if one number is written as a decimal."""


@lru_cache(maxsize=1)
def modules() -> tuple[Any, Any]:
    """Return sympy and math-verify's grader module; cached, because even a repeated import takes microseconds."""
    return importlib.import_module("sympy"), importlib.import_module("math_verify.grader")


def same_value(a: Any, b: Any, float_rounding: int, numeric_precision: int) -> bool:
    """Return True if two expressions or matrices have the same value; the last two parameters are math-verify's, unused."""
    sympy, grader = modules()
    if isinstance(a, sympy.MatrixBase | sympy.MatrixExpr) and isinstance(b, sympy.MatrixBase | sympy.MatrixExpr):
        a, b = grader.safe_sympy_doit(a), grader.safe_sympy_doit(b)
        if not (isinstance(a, sympy.MatrixBase) and isinstance(b, sympy.MatrixBase) and a.shape == b.shape):
            return False
        pairs = zip(a.flat(), b.flat(), strict=True)
        return all(same_value(x, y, float_rounding, numeric_precision) for x, y in pairs)
    if all(grader.is_atomic_or_pct_atomic(side, sympy.Integer) for side in (a, b)):
        return bool(grader.get_pct_val(a, a) == grader.get_pct_val(b, b))  # 9% and 9
    try:
        x, y = grader.safe_sympy_doit(a), grader.safe_sympy_doit(b)
        if x == y or (x := _exact(x)) == (y := _exact(y)):
            return True
        rounded = bool(a.atoms(sympy.Float) or b.atoms(sympy.Float))
        if x.is_Rational and y.is_Rational and not rounded:
            return False
        if x.free_symbols or y.free_symbols:  # handle only rounded decimals here; simplify does the rest
            return rounded and sympy.expand(x - y) == 0
        if not (x.is_finite and y.is_finite):
            return False
        return bool(_size(x - y) <= TOLERANCE * max(_size(x), _size(y)) if rounded else _size(x - y) == 0)
    except (TypeError, ValueError, AttributeError, NotImplementedError, ArithmeticError):
        return False


def _exact(value: Any) -> Any:
    """Return an expression with exact fractions for decimals, and with `i`, if it is the only variable, as imaginary unit.

    Its sums and powers must be evaluated already.
    """
    sympy, _ = modules()
    leaves = value.atoms(sympy.Float, sympy.Symbol)
    exact = {leaf: sympy.Rational(str(leaf)) for leaf in leaves if leaf.is_Float}
    unit = [leaf for leaf in leaves if leaf.is_Symbol and leaf.name == "i"]
    if unit and value.free_symbols == {*unit}:  # math-verify parses the imaginary unit as a variable
        exact |= dict.fromkeys(unit, sympy.I)
    return value.xreplace(exact).doit() if exact else value


def numbers(*values: Any) -> bool:
    """Return True if all values are finite numbers; for these `same_value` decides without symbolic comparison."""
    try:
        if any(symbol.name != "i" for value in values for symbol in value.free_symbols):
            return False
        doit = modules()[1].safe_sympy_doit
        worked_out = [_exact(doit(value)) for value in values]
        return all(value.is_number and value.is_finite and not value.free_symbols for value in worked_out)
    except (TypeError, ValueError, AttributeError, NotImplementedError, ArithmeticError):
        return False


def _size(value: Any) -> Any:
    """Return the absolute value of a number, or 0 if it is indistinguishable from 0 at the maximum precision.

    Raises:
        TypeError: the value is not a number.
    """
    sympy, _ = modules()
    parts = sympy.N(value, DIGITS, maxn=MOST_DIGITS).as_real_imag()
    squares = [part**2 for part in parts if part.is_Rational or (part.is_Float and part._prec > 1)]
    if not all(part.is_Rational or part.is_Float for part in parts):
        raise TypeError(f"{value} is no number")
    return sympy.sqrt(sum(squares))
