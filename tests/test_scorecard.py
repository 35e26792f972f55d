"""The scorecard: its streams, the judge, and every stream of ours."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scorecard.cases import SOURCES, TARGETS, Call, Case, Expected, all_cases
from scorecard.judging import judge, judge_exception, judge_message
from scorecard.ours import transcode
from scorecard.requests import Written, all_requests, broken_rules, translate
from scorecard.table import Cell, Row, as_markdown, as_text
from scorecard.vendor_requests import BEDROCK, GEMINI
from support.anthropic.frames import STOP, block, delta, end, start, stop
from support.bedrock_converse import frames as bedrock
from support.openai_chat.chunks import DONE, call, frame
from support.openai_responses.adversarial import (
    added,
    args,
    done,
    message,
    numbered,
    snapshot,
    text,
)
from support.openai_responses.adversarial import call as item
from support.openai_responses.adversarial import end as completed
from support.rules.translations import Translation

from streamnorm.profiles import VENDOR
from streamnorm.profiles.rules import shipped_rules

# At least as many streams as the table promises, by family.
COUNTS = [
    (60, ["openai_chat"]),
    (30, ["anthropic"]),
    (30, ["openai_responses"]),
    (20, ["gemini"]),
    (20, ["bedrock_converse", "bedrock_invoke"]),
    (20, ["ui_message_stream", "ag_ui"]),
]
PARIS = '{"city":"Paris"}'
WANTED = Expected(
    text="Hi",
    calls=(Call("call_0", "get_weather", {"city": "Paris"}),),
    stop="tool_use",
    usage=(20, 7),
)
CASE = Case("text and a call", "openai_chat", (), WANTED, "any server")
CUT = Case("cut", "openai_chat", (), Expected(text="Hi", outcome="truncated"), "any server")
BROKEN = Case("broken", "openai_chat", (), Expected(text=None, outcome="failed"), "any server")


@pytest.mark.parametrize(("least", "sources"), COUNTS)
def test_each_family_has_its_streams(least: int, sources: list[str]) -> None:
    cases = [case for source in sources for case in all_cases(source)]
    assert len(cases) >= least
    assert len({(case.source, case.name) for case in cases}) == len(cases)
    assert all(case.data and case.why for case in cases)


def test_page_has_the_numbers_of_streams_and_requests() -> None:
    page = Path(__file__).parents[1] / "docs/scorecard.md"
    text = " ".join(page.read_text(encoding="utf-8").split())
    outcomes = Counter(case.expected.outcome for source in SOURCES for case in all_cases(source))
    assert f"converts {outcomes.total()} adversarial streams" in text
    assert f"{outcomes['completed']} of them have one reading" in text
    assert f"{outcomes['truncated']} are cut, and {outcomes['failed']} end in an error" in text
    assert f"how many of {len(list(all_requests()))} requests" in text


@pytest.mark.parametrize("source", SOURCES)
def test_each_stream_is_clean_in_two_targets(source: str) -> None:
    for number, case in enumerate(all_cases(source)):
        for at in (number, number + 1):
            target = TARGETS[at % len(TARGETS)]
            assert judge(case, target, transcode(case, target)) == [], case.name


# What the judge finds, in streams written by hand


def anthropic(*, before_stop: tuple[bytes, ...] = ()) -> list[bytes]:
    named = {"id": "call_0", "name": "get_weather", "input": {}}
    return [
        start(usage={"input_tokens": 20, "output_tokens": 1}),
        block(0, "text", text=""),
        delta(0, "text_delta", text="Hi"),
        stop(0),
        block(1, "tool_use", **named),
        delta(1, "input_json_delta", partial_json=PARIS[:8]),
        delta(1, "input_json_delta", partial_json=PARIS[8:]),
        *before_stop,
        stop(1),
        end("tool_use", usage={"output_tokens": 7}),
        STOP,
    ]


def chat() -> list[bytes]:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return frame({**head, "choices": [choice]})

    usage = {"prompt_tokens": 20, "completion_tokens": 7}
    return [
        chunk({"role": "assistant", "content": "Hi"}),
        chunk({"tool_calls": [call(0, "call_0", "get_weather", PARIS[:8])]}),
        chunk({"tool_calls": [call(0, arguments=PARIS[8:])]}),
        chunk({}, "tool_calls"),
        frame({**head, "choices": [], "usage": usage}),
        DONE,
    ]


def responses() -> list[bytes]:
    part = {"type": "response.content_part.added", "output_index": 0, "content_index": 0}
    events = numbered(
        *(snapshot("created"), added(0, message()), part, *text(0, "msg", "Hi")),
        *(done(0, message("Hi")), added(1, item(0)), *args(1, "fc_0", PARIS[:8], PARIS[8:])),
        *(done(1, item(0, PARIS)), completed(message("Hi"), item(0, PARIS))),
    )
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]


def gemini() -> list[bytes]:
    named = {"id": "call_0", "name": "get_weather", "args": {"city": "Paris"}}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 7, "totalTokenCount": 27}
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"parts": [part]}}]}
        for part in ({"text": "Hi"}, {"functionCall": named})
    ]
    end = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in [*chunks, end]]


def converse() -> list[bytes]:
    usage = {"inputTokens": 20, "outputTokens": 7, "totalTokens": 27}
    return [
        bedrock.START,
        bedrock.text(0, "Hi"),
        bedrock.stop(0),
        bedrock.tool(1, "call_0", "get_weather"),
        bedrock.tool_input(1, PARIS[:8]),
        bedrock.tool_input(1, PARIS[8:]),
        bedrock.stop(1),
        bedrock.event("messageStop", stopReason="tool_use"),
        bedrock.event("metadata", usage=usage, metrics={"latencyMs": 9}),
    ]


def payloads(*values: dict[str, Any]) -> list[bytes]:
    return [f"data: {json.dumps(value)}\n\n".encode() for value in values]


def ui() -> list[bytes]:
    named = {"toolCallId": "call_0", "toolName": "get_weather"}
    usage = {"inputTokens": 20, "outputTokens": 7, "totalTokens": 27}
    return payloads(
        {"type": "start", "messageId": "m"},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hi"},
        {"type": "text-end", "id": "0"},
        {"type": "tool-input-start", **named},
        {"type": "tool-input-delta", "toolCallId": "call_0", "inputTextDelta": PARIS},
        {"type": "tool-input-available", **named, "input": {"city": "Paris"}},
        {"type": "finish", "finishReason": "tool-calls", "messageMetadata": {"usage": usage}},
    )


def ag_ui() -> list[bytes]:
    run = {"threadId": "t", "runId": "r"}
    said, made = {"messageId": "m"}, {"toolCallId": "call_0"}
    return payloads(
        {"type": "RUN_STARTED", **run},
        {"type": "TEXT_MESSAGE_START", "role": "assistant", **said},
        {"type": "TEXT_MESSAGE_CONTENT", "delta": "Hi", **said},
        {"type": "TEXT_MESSAGE_END", **said},
        {"type": "TOOL_CALL_START", "toolCallName": "get_weather", **made},
        {"type": "TOOL_CALL_ARGS", "delta": PARIS, **made},
        {"type": "TOOL_CALL_END", **made},
        {"type": "RUN_FINISHED", **run},
    )


BY_HAND = {
    "anthropic": anthropic(),
    "openai_chat": chat(),
    "openai_responses": responses(),
    "gemini": gemini(),
    "bedrock_converse": converse(),
    "ui_message_stream": ui(),
    "ag_ui": ag_ui(),
}
# Changed bytes of the streams above, and the kinds of the faults.
REPLACED: list[tuple[str, str, str, set[str]]] = [
    ("anthropic", '"Hi"', '"Ho"', {"accumulated"}),
    ("anthropic", '"index": 1', '"index": 2', {"grammar", "accumulated"}),
    ("anthropic", "event: message_stop", "event: stop", {"grammar", "truncation"}),
    ("anthropic", '"tool_use", "stop_sequence"', '"end_turn", "stop_sequence"', {"stop"}),
    ("anthropic", '"output_tokens": 7', '"output_tokens": 0', {"usage"}),
    ("openai_chat", '"content": "Hi"', '"content": null', {"accumulated"}),
    ("openai_chat", '"finish_reason": "tool_calls"', '"finish_reason": "stop"', {"stop"}),
    ("openai_chat", '"finish_reason": "tool_calls"', '"finish_reason": "eos"', {"grammar", "stop"}),
    ("openai_chat", '"object": "chat.completion.chunk", ', "", {"grammar"}),
    ("openai_chat", '"prompt_tokens": 20', '"prompt_tokens": 2', {"usage"}),
    ("openai_chat", "[DONE]", "{}", {"grammar"}),
    ("openai_responses", '"delta": "Hi"', '"delta": "Ho"', {"accumulated"}),
    ("openai_responses", '"item_id": "fc_0"', '"item_id": "fc_1"', {"grammar"}),
    ("openai_responses", '"text": "Hi"', '"text": "Ho"', {"finalised"}),
    ("openai_responses", '"output_tokens": 7', '"output_tokens": 9', {"usage"}),
    ("gemini", '"city"', '"town"', {"accumulated"}),
    ("gemini", '"STOP"', '"MAX_TOKENS"', {"stop"}),
    ("gemini", '"promptTokenCount"', '"promptTokens"', {"usage"}),
    ("gemini", '{"city": "Paris"}', '"Paris"', {"grammar", "accumulated"}),
    ("ui_message_stream", '"Hi"', '"Ho"', {"accumulated"}),
    ("ui_message_stream", '{\\"city', '{\\"town', {"accumulated"}),
    ("ui_message_stream", '"text-start"', '"newer"', {"grammar"}),
    ("ui_message_stream", "tool-input-available", "newer", {"finalised"}),
    ("ui_message_stream", '"tool-calls"', '"stop"', {"stop"}),
    ("ui_message_stream", '"outputTokens": 7', '"outputTokens": 1', {"usage"}),
    ("ag_ui", '"Hi"', '"Ho"', {"accumulated"}),
    ("ag_ui", '"TEXT_MESSAGE_START"', '"CUSTOM"', {"grammar"}),
    ("ag_ui", '"TOOL_CALL_END"', '"CUSTOM"', {"grammar", "finalised"}),
    ("ag_ui", '"RUN_STARTED"', '"CUSTOM"', {"grammar"}),
]


@pytest.mark.parametrize("target", TARGETS)
def test_stream_by_hand_is_clean(target: str) -> None:
    assert judge(CASE, target, b"".join(BY_HAND[target])) == []


@pytest.mark.parametrize(("target", "old", "new", "kinds"), REPLACED)
def test_changed_stream_has_its_kinds_of_faults(
    target: str, old: str, new: str, kinds: set[str]
) -> None:
    whole = b"".join(BY_HAND[target]).decode()
    assert old in whole
    faults = judge(CASE, target, whole.replace(old, new).encode())
    assert {fault.kind for fault in faults} == kinds


@pytest.mark.parametrize("target", TARGETS)
def test_success_of_a_broken_stream_is_a_fault(target: str) -> None:
    whole = b"".join(BY_HAND[target])
    assert "truncation" in {fault.kind for fault in judge(CUT, target, whole)}
    assert [fault.kind for fault in judge(BROKEN, target, whole)] == ["failure"]
    assert judge_exception(CUT, "raised") == []
    assert [fault.kind for fault in judge_exception(CASE, "raised")] == ["exception"]


def test_arguments_behind_the_stop_are_wrong_only_when_finalised() -> None:
    frames = anthropic()
    late = [*frames[:6], frames[7], frames[6], *frames[8:]]
    faults = judge(CASE, "anthropic", b"".join(late))
    assert {fault.kind for fault in faults} == {"grammar", "finalised"}


def test_order_of_blocks_of_converse_is_judged() -> None:
    frames = converse()
    late = [*frames[:5], frames[6], frames[5], *frames[7:]]
    faults = judge(CASE, "bedrock_converse", b"".join(late))
    assert {fault.kind for fault in faults} == {"grammar", "finalised"}
    open_text = [*frames[:2], *frames[3:]]
    faults = judge(CASE, "bedrock_converse", b"".join(open_text))
    assert {fault.kind for fault in faults} == {"grammar"}


def test_event_without_a_field_is_a_fault() -> None:
    out = b"".join(anthropic()).replace(b'"delta"', b'"d"')
    assert {fault.kind for fault in judge(CASE, "anthropic", out)} == {"grammar"}


def test_message_of_a_decoder_is_judged() -> None:
    calls = [{"id": "call_0", "name": "get_weather", "arguments": {"city": "Paris"}}]
    whole = {"text": "Hi", "calls": calls, "stop": "tool_use", "usage": [20, 7]}
    assert judge_message(CASE, whole) == []
    assert judge_message(CUT, {"text": "Hi", "failed": True}) == []
    wrong = {**whole, "calls": [], "stop": "end_turn", "usage": None}
    kinds = [fault.kind for fault in judge_message(CASE, wrong)]
    assert kinds == ["accumulated", "stop", "usage"]
    assert [fault.kind for fault in judge_message(BROKEN, whole)] == ["failure"]
    assert [fault.kind for fault in judge_message(CASE, {"failed": True})] == ["truncation"]


def test_table_counts_clean_streams_and_kinds() -> None:
    cell = Cell()
    for name in ("Hi", "Ho"):
        out = b"".join(anthropic()).replace(b'"Hi"', f'"{name}"'.encode())
        cell.add([fault.kind for fault in judge(CASE, "anthropic", out)])
    rows = [Row("openai_chat", "anthropic", (cell, None))]
    assert as_text(["a", "b"], rows).splitlines() == [
        "source → target          a    b",
        "openai_chat → anthropic  1/2  –",
        "    a: accumulated 1",
    ]
    assert as_markdown(["a", "b"], rows).splitlines() == [
        "| Source | Target | a | b |",
        "| --- | --- | ---: | ---: |",
        "| `openai_chat` | `anthropic` | 1/2 | – |",
    ]


@pytest.mark.parametrize("case", [*GEMINI, *BEDROCK], ids=str)
def test_request_for_gemini_or_bedrock_keeps_their_rules(case: Translation) -> None:
    rules = [rule for rule in shipped_rules() if rule.id == case.rule]
    assert any(rule.holds_for(VENDOR, case.model) for rule in rules)
    assert broken_rules(case, translate(case)) == set()


def test_broken_rules_of_a_request_are_found() -> None:
    (case,) = [each for each in GEMINI if each.rule == "gemini.last_turn"]
    answer = {"role": "model", "parts": [{"text": "Hot."}]}
    assert broken_rules(case, Written({"contents": [answer]})) == {"gemini.last_turn"}
    assert broken_rules(case, Written(None)) == {"refused"}
