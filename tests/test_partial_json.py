"""JSON in pieces: what is shown when, and what each piece added."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import jiter
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.bodies.json_texts import NEAR_JSON, PLAIN, documents, exactly, pieces, within

from streamnorm._core.json import decode_any
from streamnorm.partial_json import PartialJSON, ValueDelta


def read(fragments: Iterable[str]) -> PartialJSON:
    parser = PartialJSON()
    for fragment in fragments:
        parser.feed(fragment)
    return parser


def apply(deltas: list[ValueDelta], root: list[Any]) -> None:
    """Build a value of deltas, as the one member of `root`."""
    for path, value, appends in ((delta.path, delta.value, delta.appends) for delta in deltas):
        *way, last = (0, *path)
        parent: Any = root
        for name in way:
            parent = parent[name]
        if appends:
            parent[last] += value
        elif isinstance(parent, list) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value


# Pieces, and the value after each; `...` is where none has begun.
GROWTH: dict[str, list[tuple[str, object]]] = {
    "object": [
        *((" ", ...), ("{", {}), ('"', {}), ("a", {}), ('"', {}), (":", {}), (" ", {})),
        *(('"', {"a": ""}), ("x", {"a": "x"}), ("y", {"a": "xy"}), ('"', {"a": "xy"})),
        *((",", {"a": "xy"}), ('"b":', {"a": "xy"}), ("[", {"a": "xy", "b": []})),
        *(("]", {"a": "xy", "b": []}), ("}\n", {"a": "xy", "b": []})),
    ],
    "array": [
        *(("[", []), ("[", [[]]), ("]", [[]]), (",", [[]]), ("{", [[], {}]), ("}", [[], {}])),
        *((',"', [[], {}, ""]), ('q"]', [[], {}, "q"])),
    ],
    "number": [
        *(("[", []), ("1", []), ("2", []), (",", [12]), ("-", [12]), ("0", [12])),
        *((" ", [12, 0]), (",1.", [12, 0]), ("5", [12, 0]), ("e", [12, 0]), ("-1", [12, 0])),
        *(("]", [12, 0, 0.15]), (" ", [12, 0, 0.15])),
    ],
    "number before a brace": [('{"a":7', {}), ("}", {"a": 7})],
    "number alone": [("1", ...), ("2", ...), ("\n", 12)],
    "literals": [
        *(("[t", []), ("ru", []), ("e", [True]), (",false", [True, False])),
        *((",n", [True, False]), ("ull", [True, False, None]), ("]", [True, False, None])),
    ],
    "literal alone": [("nul", ...), ("l", None)],
    "escapes": [
        *(('"a', "a"), ("\\", "a"), ("n", "a\n"), ("\\u", "a\n"), ("00", "a\n"), ("e9", "a\né")),
        *(('\\"', 'a\né"'), ("\\\\", 'a\né"\\'), ('"', 'a\né"\\')),
    ],
    "pair of escapes": [
        *(('"a', "a"), ("\\ud8", "a"), ("3d", "a"), ("\\", "a"), ("ude0", "a"), ("0", "a😀")),
        ('"', "a😀"),
    ],
    "lone high half": [
        ('"\\ud83d', ""),
        ("b", "�b"),
        ("\\ud83d\\n", "�b�\n"),
        ("\\ud83d", "�b�\n"),
    ],
    "lone half at the end": [('"\\ud83d', ""), ('"', "�")],
    "lone low half": [('"\\ude00', "�"), ('b"', "�b")],
    "halves that are no escapes": [('"a\ud83d', "a"), ("\ude00", "a😀"), ("\ude00", "a😀�")],
    "key in pieces": [('{"k', {}), ("\\u00", {}), ('e9"', {}), (": ", {}), ('"', {"ké": ""})],
    "key twice": [
        *(('{"a":1,"b":2,"a"', {"a": 1, "b": 2}), (':"', {"a": "", "b": 2})),
        *(("x", {"a": "x", "b": 2}), ('"}', {"a": "x", "b": 2})),
    ],
    "top of a string": [('"', ""), ("é😀", "é😀"), ('"', "é😀")],
    "text after the value": [("[]", []), ("[1]", [])],
    "wrong character in a string": [('["ab\x00cd"', ["ab"]), ("x", ["ab"])],
    "wrong escape": [('["ab\\', ["ab"]), ("x", ["ab"]), ('"]', ["ab"])],
    "wrong literal": [("[1,tru", [1]), ("th", [1])],
    "wrong number": [("[1,2.", [1]), ("]", [1])],
    "number that runs into letters": [("[1,2", [1]), ("O0]", [1])],
    "number before the wrong bracket": [("[1,2", [1]), ("}", [1, 2])],
}


@pytest.mark.parametrize("growth", GROWTH.values(), ids=GROWTH)
def test_value_grows_with_each_fragment(growth: list[tuple[str, object]]) -> None:
    parser = PartialJSON()
    for piece, expected in growth:
        parser.feed(piece)
        assert exactly(parser.value) == exactly(None if expected is ... else expected), piece


def test_repeated_key_keeps_its_position() -> None:
    parser = read(['{"a":1,"b":2,"a":"', "x"])
    assert list(parser.value) == ["a", "b"]  # type: ignore[call-overload]


def test_value_is_complete_at_its_last_character() -> None:
    parser = PartialJSON()
    states = []
    for char in '{"a":1} ':
        parser.feed(char)
        states.append(parser.complete)
    assert states == [False] * 6 + [True] * 2
    assert not PartialJSON().complete


@given(documents(), st.data())
def test_any_document_in_any_fragments_gives_its_value(document: str, data: st.DataObject) -> None:
    parser = read(data.draw(pieces(st.just(document))))
    parser.close()
    assert parser.error is None
    assert parser.complete
    assert exactly(parser.value) == exactly(decode_any(document, max_depth=128))


@given(documents(PLAIN))
def test_every_prefix_grows_into_the_value(document: str) -> None:
    whole = json.loads(document)
    parser = PartialJSON()
    before: object = None
    for char in document:
        parser.feed(char)
        assert parser.value is None or within(parser.value, whole)
        assert before is None or within(before, parser.value)
        before = parser.value


@given(documents(PLAIN))
def test_every_prefix_agrees_with_jiter(document: str) -> None:
    """An independent judge, but for numbers, which it shows before they end."""
    value = numbers_as_text(json.loads(document))
    document = json.dumps(value, ensure_ascii=document.isascii())
    parser = PartialJSON()
    for end, char in enumerate(document, 1):
        parser.feed(char)
        try:
            shown = jiter.from_json(document[:end].encode(), partial_mode="trailing-strings")
        except ValueError:  # nothing has begun
            shown = None
        assert exactly(parser.value) == exactly(shown)


def numbers_as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [numbers_as_text(member) for member in value]
    if isinstance(value, dict):
        return {key: numbers_as_text(member) for key, member in value.items()}
    return value if isinstance(value, (bool, str, type(None))) else str(value)


@given(pieces(NEAR_JSON | st.text(st.characters())))
@example(["[1", "", "2]"])
def test_fragmentation_does_not_change_the_result(fragments: list[str]) -> None:
    one, many = read(["".join(fragments)]), read(fragments)
    for parser in (one, many):
        parser.close()
    assert exactly(one.value) == exactly(many.value)
    assert repr(one.error) == repr(many.error)
    assert one.complete == many.complete


# Pieces, and the deltas of each.
DELTAS: list[tuple[str, list[ValueDelta]]] = [
    (' {"a', [ValueDelta((), {})]),
    ('":', []),
    ('"', [ValueDelta(("a",), "")]),
    ("x\\", [ValueDelta(("a",), "x", True)]),
    ("ny\\ud83d", [ValueDelta(("a",), "\ny", True)]),
    ("\\ude00", [ValueDelta(("a",), "😀", True)]),
    ('\\ud83d"', [ValueDelta(("a",), "�", True)]),
    (',"b":[1', [ValueDelta(("b",), [])]),
    ("2", []),
    (",true", [ValueDelta(("b", 0), 12), ValueDelta(("b", 1), True)]),
    (
        ',{"c":"zz"},""',
        [ValueDelta(("b", 2), {}), ValueDelta(("b", 2, "c"), "zz"), ValueDelta(("b", 3), "")],
    ),
    (',"k', [ValueDelta(("b", 4), "k")]),
    ('"', []),
    ("]", []),
    (',"a":null}', [ValueDelta(("a",), None)]),
]


def test_deltas_are_what_each_fragment_added() -> None:
    parser = PartialJSON()
    assert parser.deltas() == []
    for piece, expected in DELTAS:
        parser.feed(piece)
        assert parser.deltas() == expected, piece
        assert parser.deltas() == []


def test_deltas_accumulate_until_they_are_read() -> None:
    parser = PartialJSON()
    assert parser.deltas() == []
    for piece, _ in DELTAS:
        parser.feed(piece)
    assert parser.deltas() == [delta for _, deltas in DELTAS for delta in deltas]


def test_first_deltas_cover_all_earlier_fragments() -> None:
    parser = read(['{"a":[1,{"b":"x', 'y"},"u'])
    assert parser.deltas() == [
        *(ValueDelta((), {}), ValueDelta(("a",), []), ValueDelta(("a", 0), 1)),
        *(ValueDelta(("a", 1), {}), ValueDelta(("a", 1, "b"), "xy"), ValueDelta(("a", 2), "u")),
    ]
    parser.feed('v"')
    assert parser.deltas() == [ValueDelta(("a", 2), "v", True)]


def test_deltas_of_a_scalar_have_an_empty_path() -> None:
    parser = read(['"a'])
    assert parser.deltas() == [ValueDelta((), "a")]
    parser.feed('b"')
    assert parser.deltas() == [ValueDelta((), "b", True)]
    assert read(["null"]).deltas() == [ValueDelta((), None)]


@given(pieces(documents() | NEAR_JSON), st.data())
def test_deltas_rebuild_the_value_at_any_time(fragments: list[str], data: st.DataObject) -> None:
    parser, root = PartialJSON(), list[Any]()
    for fragment in fragments:
        parser.feed(fragment)
        if data.draw(st.booleans()):
            apply(parser.deltas(), root)
            assert exactly(root[0] if root else None) == exactly(parser.value)
    apply(parser.deltas(), root)
    assert exactly(root[0] if root else None) == exactly(parser.value)
