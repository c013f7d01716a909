from decimal import Decimal

import pytest
from tally import CurrencyError, Money, RateTable


def eur(amount):
    return Money.of(amount)


def test_amounts_are_exact():
    assert eur("0.10") + eur("0.20") == eur("0.30")
    assert eur("12.34").coins == 1234
    assert eur("12.34").amount == Decimal("12.34")


@pytest.mark.parametrize(("amount", "coins"), [("1.005", 100), ("1.015", 102), ("1.025", 102), ("-1.015", -102), (2, 200)])
def test_rounds_half_to_even(amount, coins):
    assert eur(amount).coins == coins


def test_currencies_have_their_own_decimals():
    assert Money.of("12.5", "JPY").coins == 12
    assert Money.of("1.2345", "KWD").coins == 1234
    assert str(Money.of(1500, "JPY")) == "1,500 JPY"


def test_currencies_do_not_mix():
    for wrong in (
        lambda: eur(1) + Money.of(1, "USD"),
        lambda: eur(1) < Money.of(1, "USD"),
        lambda: eur(1) / Money(1, "USD"),
    ):
        with pytest.raises(CurrencyError, match="do not mix"):
            wrong()


def test_sum():
    assert sum([eur(1), eur(2)]) == eur(3)


def test_signs():
    assert -eur(2) == eur(-2)
    assert abs(eur(-2)) == eur(2)
    assert eur(5) - eur(7) == eur(-2)
    assert not eur(0)
    assert eur("0.01")


def test_products_are_rounded():
    assert eur("0.05") * 0.5 == eur("0.02")
    assert 3 * eur("1.10") == eur("3.30")


def test_quotients():
    assert eur(10) / 4 == eur("2.50")
    assert eur(10) / eur(4) == Decimal("2.5")


def test_order():
    assert eur(1) < eur(2)
    assert eur(2) >= eur(2)
    assert max(eur(1), eur(3), eur(2)) == eur(3)


def test_text():
    assert str(eur("1234567.5")) == "1,234,567.50 EUR"
    assert str(eur("-0.05")) == "-0.05 EUR"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.50 EUR", Money(1250, "EUR")),
        ("$1,200", Money(120000, "USD")),
        ("-£3", Money(-300, "GBP")),
        ("£-3", Money(-300, "GBP")),
        ("¥500", Money(500, "JPY")),
        ("CHF 7", Money(700, "CHF")),
        ("  .5 ", Money(50, "EUR")),
    ],
)
def test_parse(text, expected):
    assert Money.parse(text) == expected


@pytest.mark.parametrize("text", ["", "EUR", "1.2.3", "12 euros", "$5 EUR"])
def test_no_money(text):
    with pytest.raises(ValueError, match="no amount|two currencies"):
        Money.parse(text)


def test_parse_with_another_default():
    assert Money.parse("3", default="USD") == Money(300, "USD")


def test_split_loses_no_coin():
    assert eur(10).split(3) == [eur("3.34"), eur("3.33"), eur("3.33")]
    assert sum(eur("0.05").split(4)) == eur("0.05")


def test_allocate_gives_coins_to_the_largest_remainders():
    assert eur("1.00").allocate([1, 1, 4]) == [eur("0.17"), eur("0.17"), eur("0.66")]
    assert eur("0.05").allocate([3, 7]) == [eur("0.02"), eur("0.03")]
    assert eur("0.10").allocate([1, 5]) == [eur("0.02"), eur("0.08")]


def test_allocate_debts():
    assert eur("-0.05").allocate([1, 1]) == [eur("-0.03"), eur("-0.02")]


def test_allocate_with_a_share_of_nothing():
    assert eur(1).allocate([0, 1]) == [eur(0), eur(1)]


@pytest.mark.parametrize("ratios", [[0, 0], [2, -1]])
def test_allocate_refuses(ratios):
    with pytest.raises(ValueError, match="ratios"):
        eur(1).allocate(ratios)


def test_split_refuses():
    with pytest.raises(ValueError, match="at least 1"):
        eur(1).split(0)


def test_percent():
    assert eur(80).percent(25) == eur(20)
    assert eur("9.99").percent("7.5") == eur("0.75")


@pytest.fixture
def rates():
    table = RateTable()
    table.set("EUR", "USD", "1.25")
    table.set("USD", "JPY", 100)
    table.set("GBP", "EUR", "1.2")
    return table


def test_rate_and_its_inverse(rates):
    assert rates.rate("EUR", "USD") == Decimal("1.25")
    assert rates.rate("USD", "EUR") == Decimal("0.8")
    assert rates.rate("EUR", "EUR") == 1


def test_rate_over_a_chain(rates):
    assert rates.path("GBP", "JPY") == ["GBP", "EUR", "USD", "JPY"]
    assert rates.rate("GBP", "JPY") == 150


def test_direct_rates_come_first(rates):
    rates.set("GBP", "JPY", 160)
    assert rates.rate("GBP", "JPY") == 160


def test_no_rate(rates):
    with pytest.raises(CurrencyError, match="no rate from EUR to CHF"):
        rates.rate("EUR", "CHF")
    with pytest.raises(ValueError, match="more than 0"):
        rates.set("EUR", "CHF", 0)


def test_convert(rates):
    assert rates.convert(eur(10), "USD") == Money.of("12.50", "USD")
    assert rates.convert(eur(10), "JPY") == Money.of(1250, "JPY")


def test_convert_with_a_fee(rates):
    assert rates.convert(eur(10), "USD", fee=2) == Money.of("12.25", "USD")
    assert rates.convert(eur(10), "EUR", fee=2) == eur(10)
