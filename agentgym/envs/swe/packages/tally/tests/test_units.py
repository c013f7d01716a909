import pytest
from tally import Quantity, UnitError, parse_quantity


@pytest.mark.parametrize(
    ("number", "unit", "target", "expected"),
    [
        (1.5, "km", "m", 1500),
        (12, "in", "ft", 1),
        (2, "h", "min", 120),
        (1, "lb", "g", 453.59237),
        (100, "C", "F", 212),
        (32, "F", "C", 0),
        (0, "C", "K", 273.15),
        (3, "t", "kg", 3000),
    ],
)
def test_convert(number, unit, target, expected):
    found = Quantity(number, unit).to(target)
    assert found.number == pytest.approx(expected)
    assert found.unit == target


def test_units_of_different_measures():
    with pytest.raises(UnitError, match="do not measure the same"):
        Quantity(1, "km").to("kg")
    with pytest.raises(UnitError, match="do not measure the same"):
        Quantity(1, "C").to("m")


def test_unknown_units():
    with pytest.raises(UnitError, match="no unit 'parsec'"):
        Quantity(1, "parsec")


def test_sums_have_the_unit_of_the_first():
    assert Quantity(1, "km") + Quantity(500, "m") == Quantity(1.5, "km")
    assert Quantity(1, "h") - Quantity(30, "min") == Quantity(0.5, "h")


def test_products_and_quotients():
    assert Quantity(3, "m") * 2 == Quantity(6, "m")
    assert Quantity(3, "m") / 2 == Quantity(1.5, "m")
    assert Quantity(3, "km") / Quantity(500, "m") == 6


def test_close():
    assert Quantity(1, "mi").close(Quantity(1.609344, "km"))
    assert not Quantity(1, "mi").close(Quantity(1.6, "km"))
    assert Quantity(1, "mi").close(Quantity(1.6, "km"), tolerance=0.01)
    assert Quantity(0, "m").close(Quantity(0, "km"))


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        (1500, "m", Quantity(1.5, "km")),
        (0.25, "m", Quantity(25, "cm")),
        (7200, "s", Quantity(2, "h")),
        (-1500, "m", Quantity(-1.5, "km")),
        (1000, "m", Quantity(1, "km")),
        (0.0004, "m", Quantity(0.4, "mm")),
    ],
)
def test_best(number, unit, expected):
    found = Quantity(number, unit).best()
    assert found.unit == expected.unit
    assert found.close(expected)


def test_best_of_a_temperature_is_itself():
    assert Quantity(5, "C").best() == Quantity(5, "C")


def test_parse():
    assert parse_quantity("5 ft") == Quantity(5, "ft")
    assert parse_quantity("-2.5kg") == Quantity(-2.5, "kg")


def test_parse_several_parts():
    assert parse_quantity("1h 30min") == Quantity(90, "min")
    assert parse_quantity("1 h 1 min 5 s") == Quantity(3665, "s")


@pytest.mark.parametrize("text", ["", "5", "kg", "5 kg or so", "5 m 3 kg"])
def test_no_quantity(text):
    with pytest.raises(UnitError):
        parse_quantity(text)
