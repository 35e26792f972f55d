"""Results of tool calls: each where the target wants it, or an error."""

from __future__ import annotations

from operator import is_
from typing import Any

import pytest
from support.bodies.projection_targets import (
    Projection,
    assistant,
    call,
    own,
    request,
    result,
    system,
    user,
)

from streamnorm import (
    Audio,
    Document,
    EncodeError,
    Image,
    InputBlock,
    InputMessage,
    OpaqueBlock,
    Text,
    ToolCall,
    ToolResult,
    Video,
)

CALLS = assistant("Look.", call("a"), call("b"))
TOGETHER: dict[str, Any] = {"mixed_results": False}
SPLIT: dict[str, Any] = {"mixed_results": False, "split_results": True}


def test_results_in_one_message_before_text_stay() -> None:
    asked = request(user("Go"), CALLS, user(result("a"), result("b"), "and?"))
    done = Projection(asked)
    assert done.request is asked
    assert done.lost == {}


def test_results_of_several_messages_are_joined_for_a_target_that_wants_one() -> None:
    done = Projection(request(CALLS, user(result("a")), user(result("b")), user("and?")))
    assert done.messages == [
        ("assistant", CALLS.blocks),
        ("user", (result("a"), result("b"))),
        ("user", (Text("and?"),)),
    ]
    assert done.lost == {}


def test_results_and_text_are_parted_for_a_target_that_mixes_none() -> None:
    done = Projection(request(CALLS, user(result("a"), result("b"), "and?")), **TOGETHER)
    assert [blocks for _, blocks in done.messages[1:]] == [
        (result("a"), result("b")),
        (Text("and?"),),
    ]
    assert done.lost == {}


def test_split_results_in_any_order_stay_where_the_target_takes_them() -> None:
    asked = request(CALLS, user(result("b")), user(result("a")), user("and?"))
    done = Projection(asked, **SPLIT)
    assert done.request is asked


def test_text_before_a_result_of_split_results_is_moved_behind() -> None:
    done = Projection(request(CALLS, user(result("b")), user("hm"), user(result("a"))), **SPLIT)
    assert [blocks for _, blocks in done.messages[1:]] == [
        (result("b"), result("a")),
        (Text("hm"),),
    ]
    assert done.lost == {"results_reordered": 1}


def test_text_behind_split_results_leaves_their_order() -> None:
    """Claude Code adds a prompt to results that a shorter request had without it."""
    shorter = Projection(request(CALLS, user(result("b"), result("a"))), **SPLIT)
    longer = Projection(request(CALLS, user(result("b"), result("a"), "and?")), **SPLIT)
    assert longer.messages == [*shorter.messages, ("user", (Text("and?"),))]
    assert longer.lost == {}


def test_missing_split_results_are_filled_in_in_the_order_of_the_calls() -> None:
    asked = request(assistant(call("a"), call("b"), call("c")), user(result("c"), result("b"), "?"))
    done = Projection(asked, repair="fill", **SPLIT)
    ids = [block.tool_call_id for block in done.messages[1][1] if isinstance(block, ToolResult)]
    assert ids == ["a", "b", "c"]


def test_text_before_results_in_one_message_is_moved_behind() -> None:
    done = Projection(request(CALLS, user("hm", result("a"), result("b"))))
    assert [blocks for _, blocks in done.messages[1:]] == [
        (result("a"), result("b")),
        (Text("hm"),),
    ]
    assert done.lost == {"results_reordered": 1}


def test_results_are_put_in_the_order_of_the_calls() -> None:
    done = Projection(request(CALLS, user(result("b"), result("a"))))
    assert done.messages[1][1] == (result("a"), result("b"))
    assert done.lost == {"results_reordered": 1}


def test_a_system_message_between_call_and_result_comes_after_the_result() -> None:
    done = Projection(request(CALLS, system("Now."), user(result("a"), result("b"))))
    assert [role for role, _ in done.messages] == ["assistant", "user", "system"]


def test_a_missing_result_is_an_error_that_names_the_call() -> None:
    with pytest.raises(EncodeError, match="call without a result") as caught:
        Projection(request(user("Go"), CALLS, user(result("a"))))
    assert caught.value.path == "messages[1].tool_calls[1]"


def test_a_missing_result_is_filled_in_as_an_error() -> None:
    done = Projection(request(CALLS, user(result("a")), assistant("Done.")), repair="fill")
    filled = done.messages[1][1][1]
    assert filled == ToolResult(
        "b", (Text("No result was recorded for this tool call."),), is_error=True
    )
    assert done.lost == {"result_filled": 1}


def test_late_and_orphan_results_are_errors() -> None:
    late = request(assistant(call("a")), user(result("a")), assistant("Done."), user(result("a")))
    with pytest.raises(EncodeError, match="result after the next assistant message") as caught:
        Projection(late)
    assert caught.value.path == "messages[3].blocks[0]"
    with pytest.raises(EncodeError, match="result of no call") as caught:
        Projection(request(CALLS, user("x", result("c"))))
    assert caught.value.path == "messages[1].blocks[1]"


def test_late_and_orphan_results_become_content_of_the_user() -> None:
    late = request(
        assistant(call("a")),
        user(result("a"), result("c", "what")),
        assistant("Done."),
        user(result("a", "again"), "?"),
    )
    done = Projection(late, repair="fill")
    assert done.messages[1:3] == [
        ("user", (result("a"),)),
        ("user", (Text("[result of tool call c]"), Text("what"))),
    ]
    assert done.messages[4] == (
        "user",
        (Text("[result of tool call a]"), Text("again"), Text("?")),
    )
    assert done.lost == {"orphan_result": 1, "late_result": 1}


def test_an_equal_duplicate_is_dropped_and_an_unequal_one_is_an_error() -> None:
    done = Projection(request(assistant(call("a")), user(result("a"), result("a"))))
    assert done.messages[1][1] == (result("a"),)
    assert done.lost == {"duplicate_result": 1}
    unequal = request(assistant(call("a")), user(result("a"), result("a", "no")))
    with pytest.raises(EncodeError, match="another result of the same call") as caught:
        Projection(unequal)
    assert caught.value.path == "messages[1].blocks[1]"
    filled = Projection(unequal, repair="fill")
    assert filled.messages[1][1] == (result("a"),)


def test_two_calls_of_one_id_are_an_error() -> None:
    with pytest.raises(EncodeError, match="two calls with one id") as caught:
        Projection(request(assistant(call("a"), call("a")), user(result("a"))))
    assert caught.value.path == "messages[0]"


def test_assistant_messages_between_a_call_and_its_result_are_folded() -> None:
    done = Projection(
        request(assistant(call("a")), assistant(call("b")), user(result("a"), result("b")))
    )
    assert done.messages[0] == ("assistant", (call("a"), call("b")))
    assert done.lost == {"messages_merged": 1}


def test_calls_and_results_without_ids_are_matched_by_name_and_order() -> None:
    asked = request(
        user("Go"),
        assistant("Look.", ToolCall("", "f"), ToolCall("", "g"), ToolCall("x", "g")),
        user(result("", "2", name="g"), result("", "1"), result("x", "3")),
    )
    done = Projection(asked)
    ids = [block.id for block in done.messages[1][1] if isinstance(block, ToolCall)]
    assert ids == ["call_1_0", "call_1_1", "x"]
    results = [block for block in done.messages[2][1] if isinstance(block, ToolResult)]
    assert [(block.tool_call_id, block.content[0]) for block in results] == [
        ("call_1_0", Text("1")),
        ("call_1_1", Text("2")),
        ("x", Text("3")),
    ]
    assert done.lost == {"result_matched_by_order": 2, "results_reordered": 1}


def test_a_result_with_an_id_that_no_call_has_answers_a_call_without_one() -> None:
    asked = request(
        assistant(ToolCall("", "f"), ToolCall("x", "g")),
        user(result("x", "2"), result("unheard of", "1", name="f")),
        assistant("Done."),
    )
    done = Projection(asked, split_results=True)
    answers = [block for block in done.messages[1][1] if isinstance(block, ToolResult)]
    assert [block.tool_call_id for block in answers] == ["x", "call_0_0"]
    named_otherwise = request(assistant(ToolCall("", "f")), user(result("y", name="g")))
    with pytest.raises(EncodeError, match="result of no call"):
        Projection(named_otherwise)


# google-genai's automatic function calling answers a call that has an id with a
# `functionResponse` that has none.


def answered(*answers: ToolResult) -> list[tuple[str, str]]:
    """Return the ids and texts of results of two calls with ids, one of `f` and one of `g`."""
    calls = assistant(ToolCall("a", "f"), ToolCall("b", "g"))
    done = Projection(request(user("Go"), calls, *(user(answer) for answer in answers)))
    return [
        (block.tool_call_id, "".join(part.text for part in block.content if isinstance(part, Text)))
        for _, blocks in done.messages[2:]
        for block in blocks
        if isinstance(block, ToolResult)
    ]


def test_result_without_id_answers_the_call_of_its_name_that_has_an_id() -> None:
    swapped = result("", "2", name="g"), result("", "1", name="f")
    assert answered(*swapped) == [("a", "1"), ("b", "2")]
    nameless = result("", "1"), result("", "2")
    assert answered(*nameless) == [("a", "1"), ("b", "2")]


def test_results_without_ids_of_one_name_are_matched_by_order() -> None:
    calls = assistant(ToolCall("a", "f"), ToolCall("b", "f"))
    done = Projection(request(calls, user(result("", "1", name="f"), result("", "2", name="f"))))
    assert done.messages[1][1] == (result("a", "1", name="f"), result("b", "2", name="f"))
    assert done.lost == {"result_matched_by_order": 2}


def test_result_with_an_id_answers_its_call_before_one_without_does() -> None:
    """Also where it comes later, in a message of its own."""
    assert answered(result("", "2"), result("a", "1")) == [("a", "1"), ("b", "2")]


def test_result_without_id_answers_a_call_before_later_text_of_the_assistant() -> None:
    done = Projection(
        request(
            assistant(ToolCall("a", "f")),
            assistant("One moment."),
            assistant(ToolCall("", "g")),
            user(result("", "2", name="g"), result("", "1", name="f")),
        )
    )
    assert [block.tool_call_id for block in done.request.messages[1].tool_results] == [
        "a",
        "call_2_0",
    ]


def test_result_without_id_of_another_name_is_an_orphan() -> None:
    with pytest.raises(EncodeError, match="result of no call"):
        answered(result("", "1", name="h"), result("b", "2"))


def test_result_with_an_unknown_id_answers_no_call_that_has_an_id() -> None:
    with pytest.raises(EncodeError, match="result of no call"):
        answered(result("unheard of", "1", name="f"), result("b", "2"), result("", name="f"))


def test_a_result_without_id_and_call_is_an_orphan() -> None:
    with pytest.raises(EncodeError, match="result of no call"):
        Projection(request(user(result(""))))


def test_a_conversation_of_the_target_is_left_as_it_is() -> None:
    asked = request(own(CALLS), own(user("no results")))
    assert Projection(asked).request is asked
    with_repair = Projection(asked, repair="fill")
    assert with_repair.lost == {"result_filled": 2}


def test_images_move_behind_the_results_where_results_have_none() -> None:
    image = Image("image/png", "aGk=")
    first = ToolResult("a", (Text("page"), image))
    done = Projection(
        request(CALLS, user(first, result("b")), user("go on")), result_media=frozenset()
    )
    assert done.messages[1:] == [
        ("user", (ToolResult("a", (Text("page"),)), result("b"))),
        ("user", (Text("[image of tool result a]"), image)),
        ("user", (Text("go on"),)),
    ]
    assert done.lost == {"tool_result_image_moved": 1}
    kept = request(CALLS, user(first, result("b")))
    assert Projection(kept).request is kept


def test_an_error_is_a_loss_where_there_is_no_field() -> None:
    failed = ToolResult("a", (Text("timeout"),), is_error=True)
    asked = request(assistant(call("a")), user(failed))
    done = Projection(asked, error_results=False)
    assert done.request is asked  # the room writes the mark
    assert done.lost == {"is_error": 1}
    assert Projection(asked).lost == {}
    mine = request(assistant(call("a")), own(user(failed)))
    assert Projection(mine, error_results=False).lost == {}


def test_files_that_the_target_cannot_carry_leave_the_result() -> None:
    asked = ToolResult("a", (Text("x"), Image("image/tiff", "aGk=")))
    done = Projection(request(assistant(call("a")), user(asked)), images=frozenset({"image/png"}))
    assert done.messages[1][1] == (ToolResult("a", (Text("x"),)),)
    assert done.lost == {"image_dropped": 1}


def test_an_unanswered_call_with_only_its_message_is_missing_a_result() -> None:
    with pytest.raises(EncodeError, match="call without a result"):
        Projection(request(InputMessage("assistant", (call("a"),))))


def test_a_request_that_says_nothing_is_an_error() -> None:
    with pytest.raises(EncodeError, match="no messages, expected at least one") as caught:
        Projection(request(user(" ")))
    assert caught.value.path == "messages"
    assert caught.value.args[0].endswith("; the request has 1 without text")
    mine = own(request())
    assert Projection(mine).request is mine


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        (("hologram",), "hologram"),
        (("hologram", "smell", "hologram"), "hologram, smell"),
        (("a", "b", "c", "d"), "a, b, c"),
        (("my secret question",), "a type of 18 characters"),
        (("k" * 65,), "a type of 65 characters"),
    ],
)
def test_blocks_of_which_nothing_is_left_are_named(kinds: tuple[str, ...], named: str) -> None:
    blocks = tuple(OpaqueBlock("elsewhere", kind, "{}") for kind in kinds)
    with pytest.raises(EncodeError) as caught:
        Projection(request(InputMessage("user", blocks)))
    assert str(caught.value) == (
        f"messages: no messages, expected at least one; target has no block for {named}"
    )


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        ((Audio("audio/wav", "aGk="), Audio("audio/wav", "aGk=")), "audio (audio/wav)"),
        ((Image(url="https://a.example/b"), Text(" ")), "image by URL"),
        ((Document("my secret", "aGk="), Video("video/mp4", "aGk=")), "file, video (video/mp4)"),
    ],
)
def test_files_of_which_nothing_is_left_are_named(
    blocks: tuple[InputBlock, ...], named: str
) -> None:
    nothing = dict.fromkeys(("audio", "video", "documents", "image_urls"), False)
    with pytest.raises(EncodeError) as caught:
        Projection(request(user(*blocks)), **nothing)
    assert str(caught.value) == (
        f"messages: no messages, expected at least one; target cannot have its {named}"
    )


def test_results_with_and_without_names_are_matched_beside_each_other() -> None:
    asked = request(
        assistant(ToolCall("", "f"), ToolCall("", "g"), ToolCall("", "g")),
        user(result("", "2", name="g"), result("", "1"), result("", "3")),
    )
    done = Projection(asked)
    results = [block for block in done.messages[1][1] if isinstance(block, ToolResult)]
    assert [(block.tool_call_id, block.content[0]) for block in results] == [
        ("call_0_0", Text("1")),
        ("call_0_1", Text("2")),
        ("call_0_2", Text("3")),
    ]
    assert done.lost == {"result_matched_by_order": 3, "results_reordered": 1}


# What is added to a conversation of the target's dialect leaves it as it is: its clients match
# results without ids by their order, and its server holds it in a cache.

MINE = own(assistant(call("", "f"), call("", "g")))
ANSWERED = own(user(result("", name="f"), result("", name="g")))


def test_a_message_that_is_added_changes_no_message_of_the_target() -> None:
    asked = request(own(user("Go")), MINE, ANSWERED, user("More"), assistant("Yes", call("c")))
    done = Projection(request(*asked.messages, user(result("c"))))
    assert done.request.messages[:3] == asked.messages[:3]
    assert all(map(is_, done.request.messages, asked.messages))
    assert done.lost == {}


def test_a_result_that_is_added_answers_a_call_of_the_target() -> None:
    done = Projection(request(MINE, user(result(""), result(""))))
    assert [block.id for block in done.request.messages[0].tool_calls] == ["call_0_0", "call_0_1"]
    assert done.lost == {"result_matched_by_order": 2}
    partly = request(MINE, own(user(result("", name="f"))), user(result("", name="g")))
    assert Projection(partly).lost == {"result_matched_by_order": 2}


def test_a_call_of_the_target_that_nothing_answers_is_refused() -> None:
    with pytest.raises(EncodeError, match="call without a result") as caught:
        Projection(request(own(user("Go")), MINE, user("More")))
    assert caught.value.path == "messages[1].tool_calls[0]"


def test_a_late_result_of_a_call_of_the_target_is_known_as_late() -> None:
    mine = own(assistant(call("a"))), own(user(result("a"))), own(assistant("b"))
    with pytest.raises(EncodeError, match="result after the next assistant message"):
        Projection(request(*mine, user(result("a"))))


def test_ids_are_minted_by_their_position_in_the_whole_conversation() -> None:
    added = assistant(call("")), user(result("", name="f"))
    done = Projection(request(own(user("Go")), own(assistant("a")), user("b"), *added))
    assert done.request.messages[3].tool_calls[0].id == "call_3_0"


def test_the_conversation_of_the_target_is_repaired_if_the_client_asks() -> None:
    done = Projection(request(MINE, user("More")), repair="fill")
    assert done.lost == {"result_filled": 2}


# A conversation that is in the target's dialect, where results are to be filled in


def test_conversation_of_the_target_that_lacks_nothing_stays_where_results_are_filled_in() -> None:
    for asked in (
        request(user("Go"), CALLS, user(result("a"), result("b"), "and?")),
        request(user("Go"), assistant(call(""), call("")), user(result(""), result(""))),
    ):
        done = Projection(own(asked), "fill", same_target=True)
        assert done.request.messages is asked.messages
        assert done.lost == {}


def test_conversation_of_the_target_is_repaired_where_results_are_filled_in() -> None:
    missing = own(request(CALLS, user(result("a"))))
    assert Projection(missing, "fill", same_target=True).lost == {"result_filled": 1}
    assert Projection(missing, same_target=True).request is missing
    late = own(request(CALLS, user(result("a")), user(result("b")), user("and?")))
    done = Projection(late, "fill", same_target=True)
    assert [blocks for _, blocks in done.messages[1:]] == [
        (result("a"), result("b")),
        (Text("and?"),),
    ]


def test_repair_changes_nothing_before_what_is_repaired() -> None:
    """The provider has the messages before in its cache."""
    before = tuple(map(own, (user("Go"), assistant(call("")), user(result("")))))
    broken = tuple(map(own, (CALLS, user(result("b")), assistant("Done."))))
    done = Projection(own(request(*before, *broken)), "fill", same_target=True)
    assert all(map(is_, done.request.messages, before))
    assert done.request.messages[-1] is broken[-1]
    assert done.lost == {"result_filled": 1}


def test_conversation_that_goes_on_from_one_of_the_provider_is_not_repaired() -> None:
    asked = own(request(user(result("a")), state={"previous_response_id": "resp_1"}))
    done = Projection(asked, "fill", same_target=True)
    assert done.request is asked
    assert done.lost == {}


def test_messages_of_the_target_stay_where_results_of_added_ones_are_filled_in() -> None:
    before = tuple(map(own, (user("Go"), assistant(call("")), user(result("")))))
    done = Projection(request(*before, CALLS, user(result("a")), assistant("Done.")), "fill")
    assert all(map(is_, done.request.messages, before))
    assert done.lost == {"result_filled": 1}


# Servers of the client's own dialect


def whole(*messages: InputMessage) -> Any:
    """Return a request of the target's dialect."""
    return own(request(*map(own, messages)))


def test_results_of_the_dialect_are_parted_from_text_where_a_server_refuses_both() -> None:
    """MiniMax refuses text after a result (anomalyco/opencode#32609)."""
    asked = whole(
        user("a"), assistant(call("c")), user(result("c"), "b", extra={"target": {"x": 1}})
    )
    done = Projection(asked, only_refusals=True, mixed_results=False)
    assert [(message.blocks, message.extra) for message in done.request.messages[2:]] == [
        ((result("c"),), {"target": {"x": 1}}),
        ((Text("b"),), None),
    ]
    assert done.lost == {"message_split": 1}
    alone = whole(user("a"), assistant(call("c")), user(result("c")), user("b"))
    assert Projection(alone, only_refusals=True, mixed_results=False).request is alone


def test_result_of_no_call_is_an_error_where_a_server_refuses_it() -> None:
    """MiniMax has no tool for its id (MiniMax-AI/MiniMax-M2#76)."""
    asked = whole(user("a"), user("b", result("c")), assistant(call("c")))
    assert Projection(asked, only_refusals=True).request is asked
    with pytest.raises(EncodeError, match="result of no call") as raised:
        Projection(asked, only_refusals=True, orphan_results=False)
    assert raised.value.path == "messages[1].blocks[1]"
    legal = whole(user("a"), assistant(call("c")), user(result("c")))
    assert Projection(legal, only_refusals=True, orphan_results=False).request is legal


def test_result_of_no_call_is_repaired_if_the_client_asks() -> None:
    asked = whole(user("a"), user(result("c")))
    done = Projection(asked, "fill", only_refusals=True, orphan_results=False)
    assert done.messages[1] == ("user", (Text("[result of tool call c]"), Text("ok")))
    assert done.lost == {"orphan_result": 1}


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "1" * 400 + ".5"])
@pytest.mark.parametrize("has_text", [True, False])
def test_value_with_a_number_that_json_lacks_is_its_text(number: str, *, has_text: bool) -> None:
    text = f'{{"a":{number}}}'
    content = (Text(text),) if has_text else ()
    given = ToolResult("a", content, value=text)
    done = Projection(request(user("Go"), assistant(call("a")), user(given)))
    assert done.messages[-1] == ("user", (ToolResult("a", (Text(text),)),))


@pytest.mark.parametrize("text", ['{"a":1e300}', '{"a":"NaN"}', '{"a":"1e999"}', '{"Infinity":'])
def test_value_with_any_other_number_stays(text: str) -> None:
    given = ToolResult("a", (Text(text),), value=text)
    asked = request(user("Go"), assistant(call("a")), user(given))
    assert Projection(asked).request is asked
