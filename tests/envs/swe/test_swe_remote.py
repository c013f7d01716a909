"""Objects of another process: they behave as those of one's own, and the other end reaches no more than it is given."""

import collections
import datetime
import decimal
import json
import operator
import queue
import socket
import struct
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.envs.swe.grading import remote, remote_tests, remote_values
from agentgym.envs.swe.grading.remote import Peer, PeerGone

CODE = """
import contextlib, collections, functools
class Refused(ValueError):
    def __init__(self, message, line):
        super().__init__(message)
        self.line = line
class Money:
    rate = 2
    def __init__(self, amount): self.amount = amount
    def __add__(self, other): return Money(self.amount + other.amount)
    def __rmul__(self, factor): return Money(factor * self.amount)
    def __eq__(self, other): return isinstance(other, Money) and self.amount == other.amount
    def __hash__(self): return hash(self.amount)
    def __repr__(self): return f"Money({self.amount!r})"
    @classmethod
    def of(cls, text): return cls(int(text))
    @property
    def double(self): return self.rate * self.amount
    def refuse(self): raise Refused("no money", 7)
class Word(str): pass
Point = collections.namedtuple("Point", "x y")
class Kept(list): pass
def sort_in_place(items): items.sort(); return items
def keep(items): stored.append(items)
stored = []
def grow(): stored[0].append("grown")
def each(function, items): return [function(item) for item in items]
def count(n):
    for number in range(n): yield number
def ends(*_): raise StopIteration
import collections.abc, enum, operator
Kind, Table, Getter = enum.Enum, collections.abc.Mapping, operator.attrgetter
def memo(function):
    @functools.wraps(function)
    def inner(*given): return function(*given)
    inner.original = function
    return inner
@contextlib.contextmanager
def opened(log):
    log.append("in")
    yield Point(1, 2)
    log.append("out")
"""


@pytest.fixture
def there():
    """A module at the other end of two peers, each in a thread of its own."""
    to, back = queue.Queue(), queue.Queue()
    space = {"__name__": "there"}
    exec(CODE, space)

    def ask(message):
        to.put(message)
        return back.get(timeout=30)

    def answer(message):
        back.put(message)
        return to.get()

    code = Peer(answer, obedient=True)
    module = type(queue)("there")
    module.__dict__.update(space)
    threading.Thread(target=lambda: code.serve(to.get()), daemon=True).start()
    code.objects[0] = module
    code.numbers[id(module)] = 0
    tests = Peer(ask, obedient=False)
    return tests.unpack({"h": 0, "module": "there"})


def test_objects_behave_as_ones_own(there):
    assert there.Money(1) + there.Money(2) == there.Money(3) and there.Money(1) != there.Money(2)
    assert 3 * there.Money(2) == there.Money(6) and there.Money.of("4").amount == 4
    assert {there.Money(1): "a"}[there.Money(1)] == "a" and repr(there.Money(1)) == "Money(1)"
    money = there.Money(5)
    money.rate = 10
    assert (money.double, there.Money(5).double, isinstance(money, there.Money)) == (50, 10, True)
    with pytest.raises(there.Refused, match="no money") as error:
        money.refuse()
    assert error.value.line == 7 and isinstance(error.value, ValueError) and error.value.args == ("no money",)
    point = there.Point(1, y=2)
    assert point == (1, 2) and point.x == 1 and [*point] == [1, 2]
    assert there.Word("a") == "a" and there.Word("a").upper() == "A"


def test_lists_are_the_same_at_both_ends(there):
    items = [3, 1, 2]
    assert there.sort_in_place(items) is items and items == [1, 2, 3]
    there.keep(items)
    items.append(4)
    there.grow()
    assert items == [1, 2, 3, 4, "grown"] and there.stored[0] is items
    nested = {"a": [1]}
    nested["self"] = nested
    there.keep(nested)
    assert there.stored[1] is nested and there.stored[1]["self"] is nested


def test_functions_go_both_ways(there):
    seen = []
    assert there.each(lambda item: seen.append(item) or 2 * item, [1, 2]) == [2, 4] and seen == [1, 2]
    assert there.each(str.upper, ["a"]) == ["A"] and list(there.count(3)) == [0, 1, 2]

    @there.memo
    def double(number):
        """Twice."""
        return 2 * number

    assert double(4) == 8 and double.__name__ == "double" and double.original is not double
    with pytest.raises(ZeroDivisionError):
        there.each(lambda item: 1 / item, [0])
    log = []
    with there.opened(log) as point:
        assert point == (1, 2)
    assert log == ["in", "out"]


def test_classes_of_the_library_cross_by_name_where_they_make_values_and_stay_at_the_other_end_otherwise(there):
    assert there.Table is collections.abc.Mapping and there.each(map, []) == []
    assert there.Getter is not operator.attrgetter and there.Getter("rate")(there.Money) == 2
    assert there.Kind("Colour", ["RED"]).RED.name == "RED"
    assert there.each(reversed, [(1, 2)])[0].__next__() == 2


def test_an_end_of_iteration_is_one_only_where_it_may_be(there):
    with pytest.raises(RuntimeError, match="out of place"):
        all(map(there.ends, [1]))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.decimals(allow_nan=False)
    | st.timedeltas()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner) | st.sets(st.integers()),
    max_leaves=10,
)


@pytest.mark.long
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_data_crosses_unchanged(value):
    one, two = Peer(str, obedient=False), Peer(str, obedient=True)
    what, (found,) = two._parsed(one._message("return", (value,)))
    assert what == "return" and found == value and type(found) is type(value)


def test_containers_keep_their_kind():
    one, two = Peer(str, obedient=False), Peer(str, obedient=True)
    containers = (collections.deque([1]), collections.Counter("aab"), collections.OrderedDict(a=1), bytearray(b"x"))
    _, (found,) = two._parsed(one._message("return", (containers,)))
    assert found == containers and [type(one) for one in found] == [type(one) for one in containers]
    assert two._parsed(one._message("return", (datetime.date, decimal.Decimal("1.50"))))[1][0] is datetime.date


class Secret:
    _hidden, public = 1, 2

    def method(self):
        return 3


def test_the_code_under_test_reaches_nothing_of_the_tests_but_what_it_was_given():
    tests, secret = Peer(str, obedient=False), Secret()

    def function():
        return secret

    for one in (secret, function, Secret, [].append, json):
        tests.pack(one)
    assert (
        tests._carried_out("get", (secret, "public")) == 2 and tests._carried_out("method", (secret, "method", (), ())) == 3
    )
    for what, *words in (
        ("get", function, "__globals__"),
        ("get", function, "__closure__"),
        ("get", secret, "__class__"),
        ("get", json, "codecs"),
        ("method", [].append, "__self__", (), ()),
        ("set", secret, "public", 4),
        ("import", "os"),
    ):
        with pytest.raises(AttributeError):
            tests._carried_out(what, tuple(words))
    with pytest.raises(KeyError):
        tests._carried_out("do", (secret, "__reduce__", (), ()))


@pytest.mark.parametrize(
    "wire_message",
    [
        "",
        "[]",
        '["return", [{"n": "builtins:eval"}], [], []]',
        '["return", [{"n": "os:system"}], [], []]',
        '["return", [{"n": "operator:attrgetter"}], [], []]',
        '["return", [{"n": "operator:methodcaller"}], [], []]',
        '["return", [{"n": "pathlib:io.FileIO"}], [], []]',
        '["return", [{"n": "builtins:map"}], [], []]',
        '["return", [{"n": "builtins:type"}], [], []]',
        '["return", [{"y": 5}], [], []]',
        '["return", [{"e": {"n": "builtins:KeyboardInterrupt"}, "args": [], "cause": null}], [], []]',
        '["return", [{"e": {"n": "builtins:int"}, "args": [], "cause": null}], [], []]',
        '["return", [1], [[0, "Popen", [], null]], []]',
        '["return", [{"h": 1, "k": 2}], [], [{"number": 2, "name": 5, "module": 1, "bases": [{"n": "builtins:type"}]}]]',
        '["return", [' + "[" * 5000 + "]" * 5000 + "], [], []]",
    ],
)
def test_messages_that_make_no_sense_end_the_run(wire_message):
    with pytest.raises(PeerGone):
        Peer(lambda _: wire_message, obedient=False).request("import", "x")


def test_methods_that_nobody_may_define_are_not_taken_over():
    definition = {"number": 1, "name": "K", "module": "m", "bases": [], "special": {"__del__": True}}
    definition["methods"] = ["__getattribute__", "__class__", remote.OWN, "fine"]
    wire_message = json.dumps(["return", [{"h": 2, "k": 1}], [], [definition]])
    found = Peer(lambda _: wire_message, obedient=False).request("import", "x")
    assert not {"__getattribute__", "__del__", "__class__"} & set(vars(type(found))) and "fine" in vars(type(found))


def test_the_other_end_makes_as_many_objects_and_classes_as_the_limit_says(monkeypatch):
    monkeypatch.setattr(remote, "MOST_OBJECTS", 2)
    functions = [{"h": number, "function": "f"} for number in range(3)]
    described = [
        {"number": number, "name": "K", "module": "m", "bases": [], "special": {}, "methods": []} for number in range(3)
    ]
    assert len(Peer(str, obedient=False)._parsed(json.dumps(["return", functions[:2], [], []]))[1]) == 2
    assert Peer(str, obedient=False)._parsed(json.dumps(["return", [], [], described[:2]])) == ("return", ())
    for packed, classes in ((functions, []), ([], described)):
        with pytest.raises(PeerGone, match="too many objects"):
            Peer(str, obedient=False)._parsed(json.dumps(["return", packed, [], classes]))
    monkeypatch.setattr(remote_values, "MOST", 2)
    changes = [[number, "list", [], None] for number in range(3)]
    assert Peer(str, obedient=False)._parsed(json.dumps(["return", [{"m": 1}], changes[:2], []])) == ("return", ([],))
    with pytest.raises(PeerGone, match="too many lists"):
        Peer(str, obedient=False)._parsed(json.dumps(["return", [], changes, []]))


def test_the_tests_send_as_many_messages_as_the_limit_says(monkeypatch):
    monkeypatch.setattr(remote_tests, "MOST_CALLS", 2)
    ours, theirs = socket.socketpair()
    with theirs:
        monkeypatch.setattr(remote_tests.os, "dup", lambda _: ours.detach())
        line = remote_tests._Line(60.0)
        theirs.sendall(3 * (struct.pack("I", 4) + b"done"))
        assert [line.exchange("one"), line.exchange("two")] == ["done", "done"]
        with pytest.raises(PeerGone):
            line.exchange("three")
        line.socket.close()
