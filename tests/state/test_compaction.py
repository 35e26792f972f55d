"""A conversation as a summary of itself, where the provider compacts none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bodies.compactions import FORGED, KEY, TRIGGER, sealed
from support.state.responses import call, message, output, reasoning, said

from streamnorm import DecodeError, Message
from streamnorm._core.blocks import Reasoning, Refusal, ServerToolCall, Text, ToolCall
from streamnorm._core.events import StopReason, StreamError, Usage
from streamnorm.state import StateError
from streamnorm.state.compaction import (
    MAX_SEALED_BYTES,
    Sealer,
    asks_for_compaction,
    compact_answer,
    compact_response,
    open_summaries,
    summary_request,
)

SEALER = Sealer([KEY])
OPENED = (
    "The conversation before was replaced by this summary of it. What it reports as done is "
    "done; go on from there.\n\n"
)
ASKED = said("Snow?")
TOOLS = [{"type": "function", "name": "look"}]


def shown(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def refused(body: dict[str, Any], *, passes_others: bool = False) -> StateError:
    with pytest.raises(StateError) as caught:
        open_summaries(body, SEALER, passes_others=passes_others)
    return caught.value


def input_of(*items: Any) -> Any:
    return open_summaries({"input": [*items]}, SEALER, passes_others=False)["input"]


def summarized(*items: Any, **fields: Any) -> dict[str, Any]:
    return summary_request({"model": "m", "input": [*items], **fields})


# What asks for compaction


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"input": [ASKED, TRIGGER]}, True),
        ({"input": [TRIGGER]}, True),
        ({"input": [ASKED, {**TRIGGER, "id": "x"}]}, True),
        ({"input": [ASKED]}, False),
        ({"input": []}, False),
        ({"input": [ASKED, TRIGGER, {"type": "compaction"}, ASKED]}, False),
        ({"input": [ASKED, TRIGGER, {"type": "compaction"}, TRIGGER]}, True),
        ({"input": "compaction_trigger"}, False),
        ({"input": None}, False),
        ({"input": [5, None, "compaction_trigger"]}, False),
        ({}, False),
    ],
)
def test_trigger_at_the_end_asks_for_compaction(body: dict[str, Any], *, expected: bool) -> None:
    assert asks_for_compaction(body) is expected


@pytest.mark.parametrize(
    ("items", "place"), [([TRIGGER, ASKED], 0), ([ASKED, TRIGGER, TRIGGER], 1)]
)
def test_trigger_elsewhere_is_refused(items: list[Any], place: int) -> None:
    with pytest.raises(StateError) as caught:
        asks_for_compaction({"input": items})
    assert str(caught.value) == (
        f"Invalid value for 'input[{place}]': expected `compaction_trigger` as the last item alone."
    )
    assert (caught.value.status, caught.value.param) == (400, f"input[{place}]")


# Sealed items


def test_sealed_summary_becomes_a_message_of_the_user() -> None:
    items = [ASKED, sealed("It snows."), said("Go on.")]
    assert input_of(*items) == [ASKED, shown(OPENED + "It snows."), said("Go on.")]


@pytest.mark.parametrize("input", [[ASKED], [], "Hi", None, {"type": "compaction"}, [5, "x"]])
def test_request_without_sealed_items_is_not_changed(input: Any) -> None:
    body = {"model": "m", "input": input}
    assert open_summaries(body, SEALER, passes_others=False) is body


def test_body_of_the_caller_is_not_changed() -> None:
    body = {"input": [ASKED, sealed("It snows."), TRIGGER]}
    before = json.dumps(body)
    summary_request(open_summaries(body, SEALER, passes_others=False))
    assert json.dumps(body) == before


def test_what_a_summary_stands_for_is_left_out() -> None:
    """As the vendor ignores it; the user's messages and what configures the model stay."""
    lasting = [
        said("Be brief.", role="developer"),
        said("Be kind.", role="system"),
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "configuration_update"},
        # The task of a sub-agent of Codex.
        {"type": "agent_message", "content": [{"type": "input_text", "text": "Look."}]},
        ASKED,
        {"type": "message", **ASKED},
    ]
    gone = [
        message("msg_1", "I look."),
        {"role": "assistant", "content": "I look."},
        reasoning("rs_1", "Look it up."),
        call("c1", city="Oslo"),
        output("c1"),
        {"type": "web_search_call", "id": "ws_1"},
    ]
    items = [*lasting, *gone, TRIGGER, sealed("It snows."), *gone, *lasting]
    assert input_of(*items) == [*lasting, shown(OPENED + "It snows."), *gone, *lasting]


def test_last_summary_counts() -> None:
    found = input_of(sealed("One."), message("msg_1", "Yes."), sealed("Two."), ASKED)
    assert found == [shown(OPENED + "One."), shown(OPENED + "Two."), ASKED]


def test_call_whose_result_follows_the_summary_stays() -> None:
    before = [ASKED, reasoning("rs_1", "Hm."), call("c0"), call("c1"), output("c0")]
    items = [*before, TRIGGER, sealed("It snows."), output("c1")]
    assert input_of(*items) == [*before, shown(OPENED + "It snows."), output("c1")]


def test_result_without_a_call_keeps_nothing() -> None:
    items = [ASKED, call("c0"), output("c0"), sealed("It snows."), output("c1"), output("")]
    assert input_of(*items)[:2] == [ASKED, shown(OPENED + "It snows.")]


def test_items_of_wrong_types_stay_for_the_translation_to_refuse() -> None:
    assert input_of(5, sealed("a"), None) == [5, shown(OPENED + "a"), None]


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("passes_others", [False, True])
def test_item_that_was_not_sealed_here_is_refused(content: str, *, passes_others: bool) -> None:
    is_other = not content.startswith("sn1.compaction.")
    body = {"input": [ASKED, {"type": "compaction", "encrypted_content": content}]}
    if passes_others and is_other:  # the provider may have sealed it
        assert open_summaries(body, SEALER, passes_others=True) is body
        return
    error = refused(body, passes_others=passes_others)
    assert (error.status, error.code) == (400, "invalid_encrypted_content")
    assert error.param == "input[1].encrypted_content"
    assert str(error) == (
        "The encrypted content of 'input[1].encrypted_content' could not be verified. It was "
        "not made by this provider, or was changed."
    )


def test_item_of_the_provider_stays_beside_one_of_ours() -> None:
    theirs = {"type": "compaction", "encrypted_content": "gAAAAA", "id": "cmp_1"}
    body = {"input": [theirs, sealed("a")]}
    found = open_summaries(body, SEALER, passes_others=True)
    assert found == {"input": [theirs, shown(OPENED + "a")]}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"type": "compaction"}, "missing, expected a string"),
        ({"type": "compaction", "encrypted_content": 5}, "an integer, expected a string"),
        ({"type": "compaction", "encrypted_content": None}, "null, expected a string"),
    ],
)
def test_item_without_content_is_refused(item: dict[str, Any], text: str) -> None:
    with pytest.raises(DecodeError, match=text) as caught:
        input_of(ASKED, item)
    assert caught.value.path == "$.input[1].encrypted_content"


# The request for a summary


@pytest.mark.parametrize("end", [[TRIGGER], []])
def test_instruction_follows_the_unchanged_conversation(end: list[Any]) -> None:
    history = [said("Be brief.", role="developer"), ASKED, call("c1"), output("c1")]
    request = summarized(
        *history, *end, instructions="I.", tools=TOOLS, reasoning={"effort": "low"}
    )
    *before, instruction = request.pop("input")
    assert before == history
    assert instruction["role"] == "user"
    assert instruction["content"][0]["text"].startswith("This conversation will now be replaced")
    assert request == {
        "model": "m",
        "instructions": "I.",
        "tools": TOOLS,
        "tool_choice": "none",
        "reasoning": {"effort": "low"},
        "stream": True,
        "store": False,
    }


def test_answered_trigger_beside_a_compaction_of_the_provider_is_left_out() -> None:
    theirs = {"type": "compaction", "encrypted_content": "gAAAAA"}
    assert summarized(ASKED, TRIGGER, theirs, TRIGGER)["input"][:-1] == [ASKED, theirs]


def test_conversation_may_be_a_text() -> None:
    request = summary_request({"model": "m", "input": "Hi"})
    assert request["input"][0] == {"role": "user", "content": "Hi"}
    assert len(request["input"]) == 2


@pytest.mark.parametrize(
    ("fields", "items", "expected"),
    [
        ({"tool_choice": "required", "tools": TOOLS}, [], "none"),
        ({"tool_choice": "auto", "tools": []}, [], None),
        ({"tool_choice": "auto"}, [], None),
        ({}, [{"type": "additional_tools", "tools": TOOLS}], "none"),
        ({}, [{"type": "tool_search_output", "tools": TOOLS}], "none"),
    ],
)
def test_no_tool_may_be_called(
    fields: dict[str, Any], items: list[Any], expected: str | None
) -> None:
    """Without tools there is no choice: providers refuse one."""
    assert summarized(*items, ASKED, **fields).get("tool_choice") == expected


def test_options_that_would_change_the_answer_are_left_out() -> None:
    request = summarized(
        ASKED,
        TRIGGER,
        text={"format": {"type": "json_object"}, "verbosity": "low"},
        context_management=[{"type": "compaction", "compact_threshold": 5}],
        store=True,
        stream=False,
        previous_response_id="resp_1",
        max_output_tokens=100,
    )
    del request["input"]
    assert request == {
        "model": "m",
        "text": {"verbosity": "low"},
        "max_output_tokens": 100,
        "store": False,
        "stream": True,
    }


def test_open_calls_get_a_result_that_says_so() -> None:
    """No provider accepts a conversation that goes on without them."""
    custom = {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "x"}
    items = [ASKED, call("c1"), call("c2"), custom, output("c1"), TRIGGER]
    answered = summarized(*items)["input"][5:-1]
    text = "No output yet: the call has not ended."
    assert answered == [
        {"type": "function_call_output", "call_id": "c2", "output": text},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": text},
    ]


def test_input_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        summarized(ASKED, 5)
    assert caught.value.path == "$.input[1]"


# The answer


def answer(*blocks: Any, stop: StopReason | None = "end_turn") -> Message:
    return Message("msg_1", "claude", blocks, stop, "stop", usage=Usage(9, 3))


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence"])
def test_summary_becomes_one_sealed_item(stop: StopReason) -> None:
    blocks = (Reasoning("Hm."), Text("\n1. Task: "), Text("snow.\n"))
    found = compact_answer(answer(*blocks, stop=stop), SEALER)
    assert isinstance(found, Message)
    [item] = found.blocks
    assert isinstance(item, ServerToolCall)
    assert (item.kind, item.id[:4], len(item.id)) == ("compaction", "cmp_", 36)
    assert SEALER.open(json.loads(item.arguments)["encrypted_content"]) == "1. Task: snow."
    assert (found.id, found.model, found.usage) == ("msg_1", "claude", Usage(9, 3))
    assert (found.stop_reason, found.raw_stop_reason) == ("end_turn", None)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (answer(Text("1. Ta"), stop="max_tokens"), "the answer was cut at its limit of tokens"),
        (answer(Text("No."), stop="refusal"), "the model refused"),
        (answer(Refusal("No."), stop="refusal"), "the model refused"),
        (answer(Text("a"), stop="pause"), "the model paused"),
        (answer(Text("a"), stop="other"), "the answer ended for another reason"),
        (answer(Text("a"), stop=None), "the answer ended for another reason"),
        (answer(Text("a"), ToolCall("c", "f"), stop="tool_use"), "the model called a tool"),
        (answer(Text("a"), ToolCall("c", "f")), "the model called a tool"),
        (answer(), "the model returned no text"),
        (answer(Text(" \n")), "the model returned no text"),
        (answer(Reasoning("Long.")), "the model returned no text"),
    ],
)
def test_what_is_no_summary_is_an_error(made: Message, problem: str) -> None:
    message = f"{problem}, expected a summary of the conversation"
    assert compact_answer(made, SEALER) == StreamError("upstream", message)


def test_too_long_a_summary_is_an_error() -> None:
    found = compact_answer(answer(Text("a" * (MAX_SEALED_BYTES + 1))), SEALER)
    text = "1048577 bytes of text, expected at most 1048576"
    assert found == StreamError("too_large", text, "max_summary_bytes")


def test_whole_answer_repeats_the_messages_of_the_user() -> None:
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "x"}
    response = {"id": "resp_1", "created_at": 5.0, "usage": {}, "model": "m", "output": [item]}
    image = {"type": "input_image", "image_url": "data:,"}
    body = {
        "input": [
            said("Be brief.", role="developer"),
            ASKED,
            {"type": "message", "id": "msg_u", "role": "user", "content": [image]},
            message("msg_1", "Yes."),
            call("c1"),
            output("c1"),
            sealed("Old."),
        ]
    }
    fields = {"type": "message", "status": "completed", "role": "user"}
    assert compact_response(response, body) == {
        "id": "resp_1",
        "object": "response.compaction",
        "created_at": 5.0,
        "usage": {},
        "output": [
            {"id": "msg_1_1", **fields, "content": [{"type": "input_text", "text": "Snow?"}]},
            {"id": "msg_u", **fields, "content": [image]},
            item,
        ],
    }
