"""Content that breaks readers, and how strangers change files: for tests that attack commands."""

import json

from hypothesis import strategies as st

from ldpopt.collection.seal import BLANK, has_place, sealed

DEEP = 100_000
DIGITS = "9" * 5000

CORPUS = {
    "nothing": b"",
    "a line": b"\n",
    "zeros": bytes(100),
    "no text": b"\xff\xfe\x00\xd8",
    "utf-16": "value\n0\n".encode("utf-16"),
    "mark of the encoding": "\ufeffvalue\n0\n".encode(),
    "lists in lists": b"[" * DEEP,
    "closed lists in lists": b"[" * DEEP + b"]" * DEEP,
    "objects in objects": b'{"a":' * DEEP,
    "a number of many digits": DIGITS.encode(),
    "a negative one": f"[-{DIGITS}]".encode(),
    "a float beyond floats": b'{"n": 1e999, "d": -1e999}',
    "not a number": b"NaN",
    "a name twice": b'{"a": [0], "a": [1]}',
    "half a character": b'["\\ud800"]',
    "a text of null bytes": b'["\\u0000", "\\u0000\\u0000"]',
    "an open quote": b'value\n"0\n1\n',
    "a quote within": b'value,count\n0"1,2\n',
    "columns twice": b"value,value,count,count\n0,1,2,3\n",
    "carriage returns": b"value\r0\r1\r",
    "many columns": b"," * 10_000,
    "one long line": b"x" * 300_000,
    "other line ends": "a\u2028b\x0bc\x85d\n".encode(),
    "escape sequences": b"value\n\x1b]0;title\x07\n=cmd|' /C calc'!A0\n",
    "counts of nobody": b"value,count\n0,0\n1,0\n2,0\n3,0\n",
    "large counts": b"value,count\n0,4611686018427387904\n1,100000000000000000000\n2,0\n3,0\n",
    "digits of other scripts": "value,count\n0,²\n1,٣\n2,Ⅷ\n3,1\n".encode(),
    "a header of reports": b'report,"{""sha256"": 1}"\n',
    "a header of counts": b'value,count,"{""sha256"": 1, ""format"": ""ldpopt counts""}"\n',
    "a header in pieces": b'report,"[1, ""sha256""',
    "a footer alone": b"PAR1\x00\x00\x00\x00PAR1",
    "a footer of any length": b"PAR1\xff\xff\xff\xffPAR1",
    "a negative footer": b"PAR1" + bytes(20) + b"\x15\x80\x80\x80\x80" + b"\x05\x00\x00\x00PAR1",
}

VALUES = [
    *(None, True, False, [], {}, [[]], {"a": 1}, [0, 1], ["a", None]),
    *(0, 1, 2, 4, -1, 2**24, 2**24 + 1, 2**31, 2**62, 2**63, 2**64, 10**400),
    *(0.0, -0.5, 1.0, 1e-300, 1e300, float("inf"), float("nan")),
    *("", "0", "grr", "oue", "olh", "nearest", "up", BLANK, "x" * 100, "\x1b[1m", "\udcff", "é"),
]
"""What a field of JSON may hold."""


PIECES = [
    *(b"", b"\n", b",", b'"', b"{", b"}", b"\x00", b"\xff", b"0", b"9", b"-1", b"9" * 30, b" "),
    *(b"NaN", b"null", b"[]", b"# rows 3\n", b"1e400", b"\r\n", b"\x80\x80\x80\x80\x80\x80"),
]
"""What a piece of a file may be replaced by."""

places = st.tuples(st.integers(0, 10**6), st.integers(0, 40), st.sampled_from([*PIECES, None]))
edits = st.lists(places, min_size=1, max_size=3)
"""Up to three pieces of a file, and what replaces each; None where it is doubled."""


def edited(content, pieces):
    """Return content with pieces replaced."""
    for place, length, piece in pieces:
        start = place % (len(content) + 1)
        old = content[start : start + length]
        content = (
            content[:start] + (old * 2 if piece is None else piece) + content[start + length :]
        )
    return content


fields = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([*VALUES, KeyError])), min_size=1, max_size=3
)
"""Up to three fields of a record, and what each holds instead; KeyError where it is left out."""


def changed(record, changes):
    """Return a record with fields changed, added or left out."""
    record = dict(record)
    for number, value in changes:
        names = [*record, "report", "x"]
        name = names[number % len(names)]
        if value is KeyError:
            record.pop(name, None)
        else:
            record[name] = value
    return record


def resealed(content):
    """Return content as a forger leaves it, who computes its checksum; as it is without a place."""
    return sealed(content) if has_place(content) else content


def json_bytes(record):
    return json.dumps(record).encode()
