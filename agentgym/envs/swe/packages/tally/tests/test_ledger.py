from datetime import date

import pytest
from tally import Entry, Ledger, LedgerError, Money, balance_after, monthly_payment, schedule


def eur(amount):
    return Money.of(amount)


def day(number, month=1):
    return date(2024, month, number)


@pytest.fixture
def ledger():
    book = Ledger()
    book.transfer(day(1), "income", "bank", eur(1000), "salary")
    book.transfer(day(20), "bank", "rent", eur(600))
    book.transfer(day(5), "bank", "cash:purse", eur(50))
    book.transfer(day(3, 2), "bank", "cash", eur(20))
    return book


def test_balances(ledger):
    assert ledger.balance("bank") == eur(330)
    assert ledger.balance("income") == eur(-1000)
    assert ledger.balance("nothing") == eur(0)


def test_balance_of_an_earlier_day(ledger):
    assert ledger.balance("bank", until=day(5)) == eur(950)
    assert ledger.balance("bank", until=day(4)) == eur(1000)


def test_sub_accounts_count(ledger):
    assert ledger.balance("cash") == eur(70)
    assert ledger.balance("cash:purse") == eur(50)
    assert ledger.balance("cas") == eur(0)


def test_balances_by_currency(ledger):
    ledger.transfer(day(9), "income", "bank", Money.of(7, "USD"))
    assert ledger.balance("bank", "USD") == Money.of(7, "USD")
    assert ledger.balance("bank") == eur(330)


def test_accounts(ledger):
    assert ledger.accounts() == ["bank", "cash", "cash:purse", "income", "rent"]


def test_statement_is_in_order(ledger):
    lines = ledger.statement("bank")
    assert [line[0] for line in lines] == [day(1), day(5), day(20), day(3, 2)]
    assert [line[3] for line in lines] == [eur(1000), eur(950), eur(350), eur(330)]
    assert lines[0][1:3] == ("salary", eur(1000))


def test_monthly(ledger):
    assert ledger.monthly("bank") == {(2024, 1): (eur(1000), eur(650)), (2024, 2): (eur(0), eur(20))}


def test_entries_balance():
    with pytest.raises(LedgerError, match="does not balance: 1.00 EUR too much"):
        Entry(day(1), "", (("a", eur(3)), ("b", eur(-2))))


def test_entries_balance_in_each_currency():
    with pytest.raises(LedgerError, match="does not balance"):
        Entry(day(1), "", (("a", eur(3)), ("b", Money.of(-3, "USD"))))


def test_entries_need_two_accounts():
    with pytest.raises(LedgerError, match="two accounts"):
        Entry(day(1), "", (("a", eur(0)),))


def test_limits():
    book = Ledger(limits={"bank": eur(-100)})
    book.transfer(day(1), "bank", "cash", eur(100))
    with pytest.raises(LedgerError, match="bank would fall to -100.01 EUR"):
        book.transfer(day(2), "bank", "cash", eur("0.01"))
    assert book.balance("bank") == eur(-100)


def test_limits_do_not_stop_what_comes_in():
    book = Ledger(limits={"bank": eur(0)})
    book.limits["bank"] = eur(50)
    book.transfer(day(1), "income", "bank", eur(10))
    assert book.balance("bank") == eur(10)


def test_limits_are_the_ledgers_own():
    limits = {"bank": eur(0)}
    book = Ledger(limits)
    limits["bank"] = eur(-1000)
    with pytest.raises(LedgerError):
        book.transfer(day(1), "bank", "cash", eur(1))


def test_limits_look_at_the_whole_entry():
    book = Ledger(limits={"bank": eur(0)})
    book.post(Entry(day(1), "", (("bank", eur(-5)), ("bank", eur(5)), ("cash", eur(0)))))
    assert book.balance("bank") == eur(0)


def test_payment():
    assert monthly_payment(eur(1200), 0, 12) == eur(100)
    assert monthly_payment(eur(1000), 12, 12) == eur("88.85")
    with pytest.raises(ValueError, match="at least 1"):
        monthly_payment(eur(1), 1, 0)


def test_schedule_ends_at_nothing():
    lines = schedule(eur(1000), 12, 12)
    assert len(lines) == 12
    assert lines[-1][2] == eur(0)
    assert sum(line[1] for line in lines) == eur(1000)


def test_schedule_begins_with_most_interest():
    lines = schedule(eur(1000), 12, 12)
    assert lines[0] == (eur(10), eur("78.85"), eur("921.15"))
    assert lines[1][0] == eur("9.21")


def test_balance_after():
    assert balance_after(eur(1200), 0, 12, 3) == eur(900)
    assert balance_after(eur(1200), 0, 12, 0) == eur(1200)
    assert balance_after(eur(1200), 0, 12, 40) == eur(0)
