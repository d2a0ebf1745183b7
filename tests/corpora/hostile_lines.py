"""Lines of JSON that are easily misread: by what they hold, and by what is wrong with them."""

import json
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st
from tiers import examples

NAMES = ("text", "body", "id", "rev", "title", "data", "a", "a.b", "b", "")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.sampled_from(["", " ", "7"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.text(max_size=30)
USUAL = st.fixed_dictionaries(
    {"text": TEXTS, "id": st.integers() | TEXTS},
    optional={"rev": st.integers(-9, 99), "title": TEXTS | st.none() | st.floats(), "data": VALUES, "a": VALUES},
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5) | USUAL
WRONG = (*'{}[]",:\\u0a1e-+. \t\x01\0', "\\ud800", "\\u00e9", "\r", "\x0b", '"text":"b",', '"data":{"text":1},', "NaN,")


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """An object as JSON, some with a few characters too many, too few or wrong, or bytes that are not UTF-8."""
    data = json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans())).encode(errors="replace")
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from([*(sign.encode() for sign in WRONG), b"\xe9", b"\xef\xbb\xbf", b" " * 400]))
        data = data[:place] + put + data[place + draw(st.integers(0, 1)) :]
    return data


HOSTILE = [
    [b'{"text":"a"}{"text":"b"}', b'{"text":"c","text":"d"}', b'{"te\\u0078t":"e"}', b"{}", b" ", b"\r", b'{"text":1}'],
    [b'{"text":"\\ud83d\\ude00\\u20ac\\u00e9\\n"}', b'{"text":"\\ude00"}', b'{"text":"caf\xe9"}', b'{"id":NaN}'],
    [b'{"x":' + b"[" * 70 + b"]" * 70 + b',"text":"deep"}', b'{"id":' + b"1" * 5_000 + b"}", b"[1]", b'{"id":01}'],
    [b'\xef\xbb\xbf{"text":"mark"}', b'\xef\xbb\xbf{"text":"another"}', b'{"text":"a"}\r', b'{"text":"a"}\r\r', b"\0"],
    [b'{"text":"' + b"x" * size + b'"}\r' for size in (388, 389, 390, 391)],
    [
        b'{"text":"\\u0000"}',
        b'{"text":"\x00"}',
        b'{"text":"\xed\xa0\x80"}',
        b'{"text":"a"} x',
        b' {"text":"a"} ',
        b"null",
    ],
    [b'{"text":null,"body":"b","id":1e400,"rev":"12"}', b'{"text":7,"body":"b","id":-0.0}', b'{"text":" ","id":true}'],
    [b'{"data":{"text":"in","rev":-5},"id":"1"}', b'{"data":{"text":"a","text":"b"},"id":1}', b'{"data":[],"id":1}'],
    [b'{"data.text":null,"data":{"text":"in"},"id":1}', b'{"data":{"te\\u0078t":"in"},"id":1}', b'{"data":"x","id":1}'],
    [
        b'{"text":"a","id":1,"a":{"b.title":"t"}}',
        b'{"text":"a","id":1,"a":{"b":{"title":"t"}}}',
        b'{"text":"a","id":[1]}',
    ],
    [
        b'{"text":"a","id":9,"rev":true}',
        b'{"text":"a","id":9,"rev":9223372036854775808}',
        b'{"text":"a","id":9,"rev":""}',
    ],
    [b'{"text":"a","id":1,"b":{"":"t"}}', b'{"text":"a","id":1,"b.":"t"}', b'{"text":"a","id":1,"a":{"b":{}}}'],
]


def on_hostile_lines(test: Callable[..., None]) -> Callable[..., None]:
    """Run a property on lines drawn at random, and on those that once were read in another way, or might be."""
    for lines in HOSTILE:
        test = example(lines)(test)
    return given(st.lists(written(), max_size=6))(examples(300)(test))
