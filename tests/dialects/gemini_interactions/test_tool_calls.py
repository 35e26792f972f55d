"""Client and server tool calls, results, and steps of unknown type."""

from __future__ import annotations

import json

import pytest
from support.gemini_interactions.frames import (
    CREATED,
    blocks,
    completed,
    decode,
    delta,
    event,
    kinds,
    start,
    step,
    stop,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Limits,
    MessageStop,
    Opaque,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StreamError,
    ToolCall,
)

OWN = "gemini_interactions"
CALL = {"id": "c", "name": "f"}


def args(*pieces: str) -> list[tuple[str, dict[str, str]]]:
    return [("arguments_delta", {"arguments": piece}) for piece in pieces]


def call(*middle: JSONDelta | SignatureDelta, signature: str | None = None) -> list[object]:
    issuer = None if signature is None else "google"
    block = ToolCall("c", "f", signature=signature, issuer=issuer)
    return [BlockStart(0, block), *middle, BlockStop(0)]


# The client's


def test_arguments_are_passed_on_fragment_by_fragment() -> None:
    got = blocks(step("function_call", *args("", '{"a"', "", ":1}"), **CALL, arguments={}))
    assert got == call(JSONDelta(0, '{"a"'), JSONDelta(0, ":1}"))


def test_call_without_arguments_has_none() -> None:
    nothing: list[object] = [{}, None, ""]
    for none in nothing:
        assert blocks(step("function_call", **CALL, arguments=none)) == call()
    assert blocks(step("function_call", **CALL)) == call()


def test_whole_arguments_keep_their_json_text() -> None:
    data = json.dumps({"a": 1.5}).encode()
    body = step("function_call", **CALL, arguments={"a": 1.5}).replace(data, b'{ "a":1.50}')
    assert blocks(body) == call(JSONDelta(0, '{ "a":1.50}'))
    text = step("function_call", **CALL, arguments='{"a"\ud83d')
    assert blocks(text) == call(JSONDelta(0, '{"a"\ufffd'))


def test_whole_arguments_need_not_be_strict_json() -> None:
    body = step("function_call", **CALL, arguments={"a": 1}).replace(b'"a": 1', b'"a": NaN')
    assert blocks(body) == call(JSONDelta(0, '{"a":null}'))
    named = step("function_call", **CALL, arguments="x").replace(b'"x"', b'"x", "n": NaN')
    assert blocks(named) == call(JSONDelta(0, "x"))


def test_surrogate_halves_in_arguments_are_joined() -> None:
    got = blocks(step("function_call", *args('"\ud83d', '\ude00"', "\ud83d"), **CALL))
    assert got == call(JSONDelta(0, '"'), JSONDelta(0, '\U0001f600"'), JSONDelta(0, "\ufffd"))


def test_fragments_repeat_the_arguments_of_the_start() -> None:
    told = step("function_call", *args('{"a":', "1}"), **CALL, arguments={"a": 1})
    assert blocks(told) == call(JSONDelta(0, '{"a":'), JSONDelta(0, "1}"))


@pytest.mark.parametrize("pieces", [["{}"], ['{"a":2}'], ['{"a":', "1"]])
def test_other_arguments_than_those_of_the_start_are_malformed(pieces: list[str]) -> None:
    body = step("function_call", *args(*pieces), **CALL, arguments={"a": 1})
    message = "function_call with other arguments than its start"
    assert decode(CREATED, body, completed()).events[-1] == StreamError("malformed", message)


def test_arguments_that_are_no_json_are_unfinished() -> None:
    for body in (
        step("function_call", *args('{"a":'), **CALL),
        start(0, "function_call", **CALL) + delta(0, "arguments_delta", arguments='{"a":'),
        step("function_call", **CALL, arguments='{"a":'),
    ):
        got = decode(CREATED, body, completed())
        assert got.events[2:4] == [JSONDelta(0, '{"a":'), BlockStop(0)]
        assert kinds(got)["unfinished_arguments"] == 1
        assert got.events[-1] == MessageStop("tool_use", "completed")


def test_call_without_arguments_and_stop_is_unfinished() -> None:
    got = decode(CREATED, start(0, "function_call", **CALL), completed())
    assert got.events[2:4] == [JSONDelta(0, "{"), BlockStop(0)]
    assert kinds(got) == {"missing_block_stop": 1, "unfinished_arguments": 1}
    assert "unfinished_arguments" not in kinds(
        decode(CREATED, step("function_call", **CALL), completed())
    )


def test_two_calls_of_one_id_are_malformed() -> None:
    for other in (
        step("function_call", number=1, **CALL),
        step("y_call", number=1, id=CALL["id"]),
    ):
        got = decode(CREATED, step("function_call", **CALL), other, completed())
        message = "two calls of one id, expected different ids"
        assert got.events[-1] == StreamError("malformed", message)


def test_call_carries_its_signature() -> None:
    sign = ("thought_signature", {"signature": "Qg=="})
    more = ("function_call", {"signature": "Qw=="})
    got = blocks(
        step("function_call", *args("{"), sign, *args("}"), more, **CALL, signature="QQ==")
    )
    assert got == call(
        JSONDelta(0, "{"),
        SignatureDelta(0, "Qg==", "google"),
        JSONDelta(0, "}"),
        SignatureDelta(0, "Qw==", "google"),
        signature="QQ==",
    )


def test_unknown_fields_of_a_call_are_kept() -> None:
    got = blocks(step("function_call", ("news", {"n": 1}), **CALL, caller="x", y=None))
    assert got == [
        BlockStart(0, ToolCall("c", "f"), extra={"caller": "x"}),
        Opaque(OWN, "news", '{"type":"news","n":1}', 0),
        BlockStop(0),
    ]


def test_delta_may_hold_a_whole_call() -> None:
    whole = ("function_call", {**CALL, "arguments": {"a": 1}, "signature": "QQ=="})
    early = ("thought_signature", {"signature": "Qg=="})
    got = decode(CREATED, step("function_call", early, whole, whole), completed())
    assert got.events[2:-1] == call(
        JSONDelta(0, '{"a": 1}'), SignatureDelta(0, "QQ==", "google"), signature="QQ=="
    )
    assert got.events[1] == Opaque(
        OWN, "thought_signature", '{"type":"thought_signature","signature":"Qg=="}'
    )
    assert kinds(got) == {"resent_arguments": 1}


def test_call_without_an_id_gets_a_minted_one() -> None:
    got = decode(CREATED, step("function_call", name="f"), completed())
    start = got.events[1]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ToolCall)
    assert start.block.id.startswith("call_")
    assert kinds(got) == {"minted_id": 1}


@pytest.mark.parametrize(
    "body",
    [
        step("function_call", id="c"),
        start(0, "function_call", id="c"),
        step("function_call", *args("{}")),
    ],
)
def test_call_without_a_name_is_malformed(body: bytes) -> None:
    got = decode(CREATED, body, completed())
    message = "function call without a name, expected one"
    assert got.events[-1] == StreamError("malformed", message)


@pytest.mark.parametrize(
    ("deltas", "message"),
    [
        (
            [("function_call", {"arguments": {"a": 1}}), *args("{")],
            "function_call goes on behind its arguments",
        ),
        (
            [("function_call", {"arguments": {"a": 1}}), ("function_call", {"arguments": [2]})],
            "function_call with arguments twice",
        ),
        (
            [*args("{}"), ("function_call", {"arguments": {"a": 1}})],
            "function_call with arguments twice",
        ),
    ],
)
def test_arguments_that_contradict_each_other_are_malformed(
    deltas: list[tuple[str, dict[str, object]]], message: str
) -> None:
    got = decode(CREATED, step("function_call", *deltas, **CALL), completed())
    assert got.events[-1] == StreamError("malformed", message)


def test_arguments_after_the_stop_never_reach_another_call() -> None:
    late = delta(0, "arguments_delta", arguments="{}")
    got = decode(CREATED, step("function_call", **CALL), late, completed())
    assert isinstance(got.events[-1], StreamError)


def test_call_with_a_result_is_not_left_to_the_client() -> None:
    named = step("function_result", number=1, result="x", name="f")
    for answer in (step("function_result", number=1, call_id="c", result="x"), named):
        got = decode(CREATED, step("function_call", **CALL), answer, completed())
        assert got.events[-1] == MessageStop("end_turn", "completed")
        result = got.events[3]
        assert isinstance(result, BlockStart)
        assert isinstance(result.block, ServerToolResult)
        assert (result.block.tool_call_id, result.block.kind) == ("c", "function_result_step")
    other = step("function_result", number=1, call_id="d", result="x")
    got = decode(CREATED, step("function_call", **CALL), other, completed())
    assert got.events[-1] == MessageStop("tool_use", "completed")
    nobody = step("function_result", result="x", name="g")
    assert decode(CREATED, nobody, completed()).events[1] == BlockStart(
        0, ServerToolResult("", "function_result_step", {"result": "x", "name": "g"})
    )


# The provider's


def test_server_tool_call_is_never_a_client_tool_call() -> None:
    told = {"arguments": {"q": "a"}, "signature": "s", "search_type": "web_search"}
    got = decode(
        CREATED,
        step("google_search_call", ("google_search_call", told), id="s1", signature=""),
        completed(),
    )
    assert got.events[1:] == [
        BlockStart(0, ServerToolCall("s1", "google_search", kind="google_search_call_step")),
        Opaque(OWN, "google_search_call", '{"signature":"s","search_type":"web_search"}', 0),
        JSONDelta(0, '{"q": "a"}'),
        BlockStop(0),
        MessageStop("end_turn", "completed"),
    ]


def test_server_tool_call_may_have_its_arguments_in_start_or_delta() -> None:
    known = {"id": "m1", "name": "search", "server_name": "archive"}
    started = [
        BlockStart(
            0,
            ServerToolCall("m1", "search", kind="mcp_server_tool_call_step"),
            extra={"server_name": "archive"},
        ),
        JSONDelta(0, '{"q": 1}'),
        BlockStop(0),
    ]
    kind, whole = "mcp_server_tool_call", {"arguments": {"q": 1}}
    assert blocks(step(kind, **known, **whole)) == started
    assert blocks(step(kind, (kind, whole), **known)) == started
    assert blocks(step(kind, (kind, {**known, **whole}))) == started
    assert blocks(step(kind, *args('{"q": 1}'), **known)) == started
    assert blocks(step(kind, (kind, whole), **known, **whole)) == started


def test_fragments_with_other_fields_are_read_alike() -> None:
    pieces = [("arguments_delta", {"arguments": text, "x": 1}) for text in ('{"q":', "", "1}")]
    for kind, known in (("function_call", CALL), ("y_call", {"id": "y"})):
        plain = step(kind, *args('{"q":', "1}"), **known)
        assert blocks(step(kind, *pieces, **known)) == blocks(plain)


def test_server_tool_call_without_an_id_is_found_by_its_result() -> None:
    got = decode(
        CREATED,
        step("url_context_call", ("news", {})),
        step("url_context_result", number=1, result=[]),
        completed(),
    )
    starts = [event.block for event in got.events if isinstance(event, BlockStart)]
    assert isinstance(starts[0], ServerToolCall)
    assert isinstance(starts[1], ServerToolResult)
    assert starts[0].id == starts[1].tool_call_id != ""
    assert kinds(got) == {"minted_id": 1}


def test_result_without_an_id_after_two_calls_is_malformed() -> None:
    calls = [step("y_call", number=n, id=f"y{n}") for n in range(2)]
    result = step("y_result", number=2, result=[])
    got = decode(CREATED, *calls, result, completed())
    message = "result without an id after 2 calls, expected one"
    assert got.events[-1] == StreamError("malformed", message)
    named = step("y_result", number=2, call_id="y1", result=[])
    rest = step("y_result", number=3, result=[])
    got = decode(CREATED, *calls, named, rest, completed())
    results = [event.block for event in got.events[-5:] if isinstance(event, BlockStart)]
    assert [getattr(block, "tool_call_id", None) for block in results] == ["y1", "y0"]


def test_result_is_one_block_when_it_stops() -> None:
    first = {"call_id": "s1", "signature": "", "result": [{"a": 1}], "x": None}
    got = blocks(
        step(
            "url_context_result",
            ("url_context_result", {"result": [{"a": 2}], "is_error": False, "signature": "s"}),
            ("url_context_result", {"signature": "", "result": [{"a": 3}]}),
            ("news", {}),
            **first,
        )
    )
    content = {
        "call_id": "s1",
        "signature": "s",
        "result": [{"a": 1}, {"a": 2}, {"a": 3}],
        "is_error": False,
    }
    assert got == [
        Opaque(OWN, "news", '{"type":"news"}'),
        BlockStart(0, ServerToolResult("s1", "url_context_result_step", content)),
        BlockStop(0),
    ]


def test_text_of_a_result_has_no_lone_surrogates() -> None:
    got = blocks(step("x_result", call_id="c", text="a\ud83d", content=[{"text": "\ude00"}]))
    assert got[0] == BlockStart(
        0,
        ServerToolResult(
            "c",
            "x_result_step",
            {"call_id": "c", "text": "a\ufffd", "content": [{"text": "\ufffd"}]},
        ),
    )


def test_unstopped_result_is_reported_at_the_end() -> None:
    got = decode(CREATED, start(0, "x_result", call_id="c", result="r"), completed())
    assert got.events[1:3] == [
        BlockStart(0, ServerToolResult("c", "x_result_step", {"call_id": "c", "result": "r"})),
        BlockStop(0),
    ]


def test_tool_delta_without_a_step_starts_one() -> None:
    frames = [delta(0, "x_result", call_id="c", result="r"), stop(0), delta(1, "y_call", id="y")]
    got = decode(*frames, stop(1), completed())
    assert got.events[1:-1] == [
        BlockStart(0, ServerToolResult("c", "x_result_step", {"call_id": "c", "result": "r"})),
        BlockStop(0),
        *(BlockStart(1, ServerToolCall("y", "y", kind="y_call_step")), BlockStop(1)),
    ]


# Types unknown


def test_step_of_unknown_type_is_an_opaque_block() -> None:
    got = blocks(
        start(0, "user_input", content=[{"type": "text", "text": "hi"}]),
        delta(0, "text", text="more"),
        stop(0),
        event("step.start", index=1, step={"a": 1}),
        stop(1),
    )
    data = '{"type":"user_input","content":[{"type":"text","text":"hi"}]}'
    assert got == [
        BlockStart(0, OpaqueBlock(OWN, "user_input", data)),
        Opaque(OWN, "text", '{"type":"text","text":"more"}', 0),
        BlockStop(0),
        *(BlockStart(1, OpaqueBlock(OWN, "", '{"a":1}')), BlockStop(1)),
    ]


def test_calls_and_blocks_are_bounded() -> None:
    twice = step("function_call", **CALL) + step("y_call", number=1, id="y")
    got = decode(CREATED, twice, limits=Limits(max_tool_calls=1))
    assert isinstance(error := got.events[-1], StreamError)
    assert error.code == "max_tool_calls"
    got = decode(CREATED, twice, limits=Limits(max_blocks=1))
    assert isinstance(error := got.events[-1], StreamError)
    assert error.code == "max_blocks"
