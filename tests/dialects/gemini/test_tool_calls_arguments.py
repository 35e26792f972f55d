"""`partialArgs` become fragments of one JSON object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm import Limits
from streamnorm._core.failures import Fatal
from streamnorm._core.limits import StoredBytes
from streamnorm.dialects.gemini.tool_calls import PartialArguments

texts = st.text('aé—🙂"\\\n', max_size=6)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
names = st.text("ab_ 1-", min_size=1, max_size=4)
trees = st.dictionaries(
    names,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def entries(value: Any, path: str = "$", cut: int = 0) -> list[dict[str, Any]]:
    """Return a value as the vendor streams it."""
    match value:
        case dict() if value or path == "$":
            return [e for k, v in value.items() for e in entries(v, f"{path}.{k}", cut)]
        case dict():
            return [{"jsonPath": path}]
        case list() if value:
            return [e for i, v in enumerate(value) for e in entries(v, f"{path}[{i}]", cut)]
        case list():
            return [{"jsonPath": f"{path}[]"}]
        case bool():
            return [{"jsonPath": path, "boolValue": value}]
        case int():
            return [{"jsonPath": path, "numberValue": value}]
        case str() if cut:
            pieces = [value[:cut], value[cut:]]
            start = [{"jsonPath": path, "stringValue": p, "willContinue": True} for p in pieces]
            return [*start, {"jsonPath": path, "stringValue": ""}]
        case str():
            return [{"jsonPath": path, "stringValue": value}]
        case _:
            return [{"jsonPath": path, "nullValue": "NULL_VALUE"}]


LIMITS = Limits()


def written(*told: dict[str, Any], limits: Limits = LIMITS) -> list[str]:
    arguments = PartialArguments(limits, StoredBytes())
    return [*[arguments.write(entry) for entry in told], arguments.finish()]


def string(path: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": text, **fields}


@given(trees, st.integers(0, 3))
def test_fragments_join_to_the_value(tree: dict[str, Any], cut: int) -> None:
    text = "".join(written(*entries(tree, cut=cut)))
    assert json.loads(text or "{}") == tree
    assert text in ("", json.dumps(tree, separators=(",", ":"), ensure_ascii=False))


def test_each_entry_gives_its_text_at_once() -> None:
    assert written(
        string("$.a.b", "x", willContinue=True),
        string("$.a.b", 'y"', willContinue=True),
        string("$.a.b", ""),
        {"jsonPath": "$.a.n", "numberValue": 1.5},
        {"jsonPath": "$.l[0]", "boolValue": False},
        {"jsonPath": "$.l[1].k", "nullValue": "NULL_VALUE"},
        {"jsonPath": "$.l[]"},
        {"jsonPath": '$[\'a key\']["q\\""]', "numberValue": 7},
    ) == [
        *('{"a":{"b":"x', 'y\\"', '"', ',"n":1.5', '},"l":[false', ',{"k":null', "}]"),
        *(',"a key":{"q\\"":7', "}}"),
    ]


def test_unfinished_string_is_not_closed() -> None:
    assert written(string("$.a", "x", willContinue=True)) == ['{"a":"x', ""]


def test_arguments_are_whole_once_everything_is_closed() -> None:
    arguments = PartialArguments(LIMITS, StoredBytes())
    assert arguments.is_whole
    arguments.write(string("$.a", "x", willContinue=True))
    arguments.finish()
    assert not arguments.is_whole
    arguments.write({"jsonPath": "$.a"})
    assert not arguments.is_whole
    arguments.finish()
    assert arguments.is_whole


def test_keys_of_open_objects_are_bounded() -> None:
    stored = StoredBytes(402)  # each key has one byte, and counts 200 for its entry
    arguments = PartialArguments(LIMITS, stored)
    for key in "ab":
        arguments.write({"jsonPath": f"$.{key}", "numberValue": 1})
    assert stored.left == 0
    with pytest.raises(Fatal) as failure:
        arguments.write({"jsonPath": "$.c", "numberValue": 1})
    assert failure.value.error.code == "max_accumulated_bytes"
    arguments.finish()
    assert stored.left == 402


def test_arguments_that_were_cut_are_no_json() -> None:
    arguments = PartialArguments(LIMITS, StoredBytes())
    assert arguments.cut() == "{"
    arguments.write({"jsonPath": "$.a", "numberValue": 1})
    assert arguments.cut() == ""


def test_high_surrogate_waits_for_its_pair() -> None:
    pieces = [string("$.a", "\ud83d", willContinue=True), string("$.a", "\ude42")]
    assert written(*pieces) == ['{"a":"', '🙂"', "}"]
    assert written(string("$.a", "\ud83d", willContinue=True)) == ['{"a":"', "�"]


def test_call_without_entries_has_no_text() -> None:
    assert written() == [""]


@pytest.mark.parametrize(
    "told",
    [
        [{}],
        [{"jsonPath": 1}],
        [{"jsonPath": "a"}],
        [{"jsonPath": "$..a", "numberValue": 1}],
        [{"jsonPath": "$[]x", "numberValue": 1}],
        [{"jsonPath": "$[0]", "numberValue": 1}],
        [{"jsonPath": "$", "numberValue": 1}],
        [{"jsonPath": "$.a[1]", "numberValue": 1}],
        [{"jsonPath": "$.a[0]", "numberValue": 1}, {"jsonPath": "$.a[2]", "numberValue": 1}],
        [{"jsonPath": "$.a[0]", "numberValue": 1}, {"jsonPath": "$.a.b", "numberValue": 1}],
        [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a", "numberValue": 2}],
        [{"jsonPath": "$.a.b", "numberValue": 1}, {"jsonPath": "$.a", "numberValue": 2}],
        [
            {"jsonPath": "$.a.b", "numberValue": 1},
            {"jsonPath": "$.c", "numberValue": 1},
            {"jsonPath": "$.a.d", "numberValue": 1},
        ],
        [string("$.a", "x", willContinue=True), string("$.b", "y")],
        [string("$.a", "x", willContinue=True), {"jsonPath": "$.a", "numberValue": 1}],
        [{"jsonPath": "$.a", "numberValue": 1, "boolValue": True}],
        [{"jsonPath": "$.a", "numberValue": None}],
        [{"jsonPath": "$.a", "numberValue": "1"}],
        [{"jsonPath": "$.a", "numberValue": True}],
        [{"jsonPath": "$.a", "boolValue": 1}],
        [string("$.a", None)],  # type: ignore[arg-type] - what no server may send
    ],
    ids=str,
)
def test_path_out_of_order_is_malformed(told: list[dict[str, Any]]) -> None:
    with pytest.raises(Fatal) as raised:
        written(*told)
    assert raised.value.error.kind == "malformed"


@pytest.mark.parametrize(("depth", "fits"), [(6, True), (7, True), (8, False)])
def test_path_is_bounded(depth: int, fits: bool) -> None:
    entry = {"jsonPath": "$" + ".a" * depth, "numberValue": 1}
    limits = Limits(max_json_depth=8)
    if fits:
        assert json.loads("".join(written(entry, limits=limits)))
        return
    with pytest.raises(Fatal) as raised:
        written(entry, limits=limits)
    assert (raised.value.error.kind, raised.value.error.code) == ("too_large", "max_json_depth")
