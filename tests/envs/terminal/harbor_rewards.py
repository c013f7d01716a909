"""Contents of reward files with the rewards that harbor 0.26.0 reads in them; None where it raises an error."""

TXT = [
    (b"1\n", 1.0), (b"0.25", 0.25), (b".75", 0.75), (b"1.", 1.0), (b"+1", 1.0), (b"01", 1.0), (b" 1 \n", 1.0),
    (b"1_0", 10.0),
    ("\u0663".encode(), 3.0), ("\u00a01".encode(), 1.0), (b"-0.5", -0.5), (b"1e-400", 0.0), (b"9" * 300, 1e300),
    (b"", None), (b"\n", None), (b"passed", None), (b"true", None), (b"nan", None), (b"NaN", None), (b"inf", None),
    (b"1e999", None), (b"1" * 4000, None), (b"0x1", None), (b"1 2", None), (b"1,0", None), (b"1\x00", None), (b"\xff", None),
    (b"\xef\xbb\xbf1", None), (b'{"reward": 1}', None),
]  # fmt: skip
JSON = [
    (b'{"reward": true}', {"reward": 1.0}), (b'{"reward": false}', {"reward": 0.0}), (b'{"a": 0.5}', {"a": 0.5}),
    (b'{"reward": 1, "speed": 0.5}', {"reward": 1.0, "speed": 0.5}), (b'{"a": 1, "b": 0.5}', {"a": 1.0, "b": 0.5}),
    (b"{}", {}), (b'{"reward": 1, "reward": 0}', {"reward": 0.0}), (b'{"": 1}', {"": 1.0}),
    (b"", None), (b"  ", None), (b"true", None), (b"1", None), (b"1.0", None), (b"null", None), (b"[1]", None),
    (b'"1"', None),
    (b'{"reward": "1"}', None), (b'{"reward": null}', None), (b'{"reward": [1]}', None), (b'{"reward": {"a": 1}}', None),
    (b'{"reward": 0.5, "b": "x"}', None), (b'{"reward": NaN}', None), (b'{"reward": -Infinity}', None),
    (b'{"reward": 1e309}', None), (b'{"reward": .75}', None), (b'{"reward": +1}', None), (b'{"reward": 01}', None),
    (b'{"reward": 1.}', None), (b'{"reward": 1' + b"0" * 5000 + b"}", None), (b"[" * 100_000, None),
    (b'\xef\xbb\xbf{"reward": 1}', None), ('{"reward": 1}'.encode("utf-16"), None),
]  # fmt: skip
REWARDS = [
    *(("reward.txt", content, None if number is None else {"reward": number}) for content, number in TXT),
    *(("reward.json", content, rewards) for content, rewards in JSON),
]
