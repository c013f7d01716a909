"""Quantities with units."""

import re
from dataclasses import dataclass

UNITS = {
    "mm": ("length", 0.001), "cm": ("length", 0.01), "m": ("length", 1.0), "km": ("length", 1000.0),
    "in": ("length", 0.0254), "ft": ("length", 0.3048), "mi": ("length", 1609.344),
    "g": ("mass", 0.001), "kg": ("mass", 1.0), "t": ("mass", 1000.0), "lb": ("mass", 0.45359237),
    "s": ("time", 1.0), "min": ("time", 60.0), "h": ("time", 3600.0), "d": ("time", 86400.0),
}  # fmt: skip
"""What a unit measures, and its worth in that measure's own unit."""
OFFSETS = {"K": (1.0, 0.0), "C": (1.0, 273.15), "F": (5 / 9, 459.67 * 5 / 9)}
"""Temperatures: kelvin = number * factor + offset."""
_QUANTITY = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*([A-Za-z]+)")


class UnitError(ValueError):
    """A unit that is unknown, or measures something else."""


def measure_of(unit):
    """Return what a unit measures."""
    if unit in OFFSETS:
        return "temperature"
    if unit not in UNITS:
        raise UnitError(f"no unit {unit!r}")
    return UNITS[unit][0]


@dataclass(frozen=True)
class Quantity:
    """A number of a unit."""

    number: float
    unit: str

    def __post_init__(self):
        measure_of(self.unit)

    def to(self, unit):
        """Return the same quantity in another unit; UnitError where that measures something else."""
        if measure_of(unit) != measure_of(self.unit):
            raise UnitError(f"{self.unit} and {unit} do not measure the same")
        if unit == self.unit:
            return self
        if self.unit in OFFSETS:
            factor, offset = OFFSETS[self.unit]
            kelvin = self.number * factor + offset
            factor, offset = OFFSETS[unit]
            return Quantity((kelvin - offset) / factor, unit)
        return Quantity(self.number * UNITS[self.unit][1] / UNITS[unit][1], unit)

    def __add__(self, other):
        return Quantity(self.number + other.to(self.unit).number, self.unit)

    def __sub__(self, other):
        return Quantity(self.number - other.to(self.unit).number, self.unit)

    def __mul__(self, factor):
        return Quantity(self.number * factor, self.unit)

    def __truediv__(self, other):
        if isinstance(other, Quantity):
            return self.number / other.to(self.unit).number
        return Quantity(self.number / other, self.unit)

    def close(self, other, tolerance=1e-9):
        """Whether two quantities are the same but for rounding, relative to the larger."""
        theirs = other.to(self.unit).number
        return abs(self.number - theirs) <= tolerance * max(abs(self.number), abs(theirs), 1e-300)

    def best(self):
        """Return it in the largest metric unit in which it is at least 1, or in the smallest there is."""
        units = {"length": ["km", "m", "cm", "mm"], "mass": ["t", "kg", "g"], "time": ["d", "h", "min", "s"]}
        for unit in units.get(measure_of(self.unit), [self.unit]):
            found = self.to(unit)
            if abs(found.number) >= 1:
                break
        return found


def parse_quantity(text):
    """Read `5 ft`, `1h 30min` and the like; the parts of one measure are added up, in the unit of the last."""
    pieces = _QUANTITY.findall(text)
    rest = _QUANTITY.sub("", text).strip()
    if not pieces or rest:
        raise UnitError(f"no quantity: {text!r}")
    parts = [Quantity(float(number), unit) for number, unit in pieces]
    total = parts[-1]
    for part in parts[:-1]:
        total = total + part
    return total
