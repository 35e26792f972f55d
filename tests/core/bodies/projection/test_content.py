"""Blocks of messages: what the target has no place for is dropped, moved or renamed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import (
    Projection,
    assistant,
    call,
    own,
    request,
    result,
    user,
)

from streamnorm import (
    Audio,
    CacheMark,
    Citation,
    Document,
    EncodeError,
    Image,
    InputBlock,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.request import Source
from streamnorm._core.text import SignatureCarrier, write_carrier

PNG = Image("image/png", "aGk=")


def blocks_of(*blocks: InputBlock, role: str = "user", **target: Any) -> Projection:
    message = assistant(*blocks) if role == "assistant" else user(*blocks)
    return Projection(request(message), **target)


def test_blank_text_and_messages_without_content_are_dropped() -> None:
    done = Projection(request(user("Hi", " \n"), user(""), assistant(), user("?")))
    assert done.messages == [("user", (Text("Hi"),)), ("user", (Text("?"),))]
    assert done.lost == {"empty_message_dropped": 2}


def test_blank_text_of_the_target_stays() -> None:
    asked = request(own(user(" ")), own(assistant()))
    assert Projection(asked).request is asked


def test_messages_that_are_joined_keep_all_their_blocks() -> None:
    asked = request(user(PNG, Text("a")), user(Text("b"), PNG))
    done = Projection(asked, strict_alternation=True)
    assert done.request.messages == (user(PNG, Text("a\n\nb"), PNG),)


def test_names_of_participants_are_lost_where_there_is_no_field() -> None:
    done = Projection(request(user("Hi", name="bob")), names=False)
    assert done.request.messages == (user("Hi"),)
    assert done.lost == {"name": 1}


def test_extra_fields_of_other_dialects_are_lost_by_name() -> None:
    extra = {"target": {"a": 1}, "other": {"b": 2, "c": None}}
    message = user(Text("Hi", extra=extra), extra={"other": {"phase": "x"}})
    done = Projection(request(message, extra=extra))
    assert done.request.extra == {"target": {"a": 1}}
    assert done.request.messages == (user(Text("Hi", extra={"target": {"a": 1}})),)
    assert done.lost == {"b": 2, "phase": 1}


def test_unknown_citations_are_dropped() -> None:
    known, other = Citation("known"), Citation("other")
    done = blocks_of(Text("a", (known, other)), Text("b", (known,)), role="assistant")
    assert done.messages == [("assistant", (Text("a", (known,)), Text("b", (known,))))]
    assert done.lost == {"citations": 1}


def test_unknown_citations_of_results_and_instructions_are_dropped() -> None:
    known, other = Citation("known"), Citation("other")
    cited = ToolResult("a", (Text("ok", (known, other)),))
    asked = request(assistant(call("a")), user(cited), system=(Text("s", (other,)),))
    done = Projection(asked)
    assert done.messages[1][1] == (ToolResult("a", (Text("ok", (known,)),)),)
    assert done.request.system == (Text("s"),)
    assert done.lost == {"citations": 2}
    kept = request(assistant(call("a")), user(cited), system=(Text("s", (known,)),))
    assert Projection(kept, only_refusals=True).request is kept


def test_signatures_go_to_their_vendor_alone() -> None:
    mine = (Text("a", signature="s", issuer="vendor"), call("c", signature="t", issuer="vendor"))
    asked = request(assistant(*mine), user(result("c")))
    assert Projection(asked).request is asked
    for target in ({"reasoning_issuer": "other"}, {"signed": frozenset()}):
        done = Projection(asked, **target)
        assert done.messages[0][1] == (Text("a"), call("c"))
        assert done.lost == {"signature_dropped": 2}
    image = Image("image/png", "AAAA", signature="s", issuer="vendor")
    asked = request(assistant(image), user("r"))
    media = {"assistant_media": True, "signed": frozenset({"image"})}
    assert Projection(asked, **media).messages[0][1] == (image,)
    done = Projection(asked, **media, reasoning_issuer="other")
    assert done.messages[0][1] == (structs.replace(image, signature=None),)
    assert done.lost == {"signature_dropped": 1}
    empty = blocks_of(Text(signature="s", issuer="vendor"), role="assistant")
    assert empty.messages == [("assistant", (Text(signature="s", issuer="vendor"),))]


@pytest.mark.parametrize(
    ("block", "kept", "lost"),
    [
        (Reasoning(("why",), "s", "vendor"), Reasoning(("why",), "s", "vendor"), {}),
        (RedactedReasoning("d", "vendor"), RedactedReasoning("d", "vendor"), {}),
        (Reasoning(("why",)), None, {"reasoning_dropped": 1}),
        (Reasoning(("why",), "s", "other"), None, {"reasoning_dropped": 1}),
        (Reasoning(("why",), "", "vendor"), None, {"reasoning_dropped": 1}),
        (RedactedReasoning("d", "other"), None, {"reasoning_dropped": 1}),
        (RedactedReasoning("d"), None, {"reasoning_dropped": 1}),
    ],
    ids=repr,
)
def test_reasoning_goes_to_the_vendor_that_signed_it(
    block: InputBlock, kept: InputBlock | None, lost: dict[str, int]
) -> None:
    done = blocks_of(block, Text("x"), role="assistant")
    assert done.messages[0][1] == ((Text("x"),) if kept is None else (kept, Text("x")))
    assert done.lost == lost


@pytest.mark.parametrize(
    "block", [Reasoning(("why",), "s", "vendor", "item_1"), RedactedReasoning("d", "vendor", "é")]
)
def test_illegal_id_of_reasoning_is_left_out(block: Reasoning | RedactedReasoning) -> None:
    target = {"role": "assistant", "reasoning_id_pattern": "rs_[a-z0-9]+"}
    done = blocks_of(block, Text("x"), **target)
    assert done.messages[0][1] == (structs.replace(block, id=None), Text("x"))
    assert done.lost == {"item_id": 1}
    legal = structs.replace(block, id="rs_1")
    for id, pattern in (("rs_1", "rs_[a-z0-9]+"), ("rs_1", None), (None, "rs_[a-z0-9]+")):
        kept = structs.replace(legal, id=id)
        done = blocks_of(kept, Text("x"), role="assistant", reasoning_id_pattern=pattern)
        assert done.messages[0][1] == (kept, Text("x"))
        assert done.lost == {}


SIGNED = Reasoning(("why",), "s", "vendor")
HIDDEN = RedactedReasoning("d", "vendor")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((SIGNED,), ()),
        ((SIGNED, HIDDEN), ()),
        ((Text("a"), SIGNED, HIDDEN), (Text("a"),)),
        ((SIGNED, Text(" ")), ()),
        ((SIGNED, HIDDEN, Text("a"), SIGNED), (SIGNED, HIDDEN, Text("a"))),
    ],
)
def test_reasoning_that_nothing_follows_is_dropped(
    before: tuple[InputBlock, ...], after: tuple[InputBlock, ...]
) -> None:
    """An answer was cut while the model reasoned, or its calls were edited out."""
    asked = request(user("Hi"), assistant(*before), user("?"))
    done = Projection(asked, reasoning_answered=True)
    kept = [("assistant", after)] if after else []
    assert done.messages == [("user", (Text("Hi"),)), *kept, ("user", (Text("?"),))]
    empty = {} if after else {"empty_message_dropped": 1}
    dropped = sum(not isinstance(block, Text) for block in before)
    dropped -= sum(not isinstance(block, Text) for block in after)
    assert done.lost == {"reasoning_dropped": dropped, **empty}
    assert Projection(asked, reasoning_answered=False).messages[1][1] != after


def test_reasoning_that_nothing_follows_is_dropped_from_an_answer_of_the_target() -> None:
    asked = request(user("Hi"), own(assistant(SIGNED)), user("?"))
    done = Projection(asked, reasoning_answered=True)
    assert [role for role, _ in done.messages] == ["user", "user"]
    native = Projection(asked, same_target=True, reasoning_answered=True)
    assert native.request is asked


@pytest.mark.parametrize(("stored", "store"), [(True, True), (True, None), (False, False)])
def test_unsigned_reasoning_of_an_answer_goes_back_where_it_is_stored(
    stored: bool, store: bool | None
) -> None:
    """Its id is all that a provider which stores its answers needs."""
    part = assistant(Reasoning(("why",)), "a")
    answer = structs.replace(part, source=Source("target", None, part))
    asked = request(user("Hi"), answer, user("?"), store=store)
    if store is None:  # which a client of the dialect alone leaves out
        asked = own(asked)
    done = Projection(asked, stored_reasoning=True)
    assert len(done.messages[1][1]) == 1 + stored
    assert done.lost == ({} if stored else {"reasoning_dropped": 1})
    assert len(Projection(asked).messages[1][1]) == 2


def test_message_with_tags_is_written_anew_for_another_server() -> None:
    """Its vendor wrote none of them: the answer came from an upstream of another dialect."""
    blocks = (SIGNED, Reasoning(("else",), "t", "other"), Text("a"))
    part = assistant(*blocks)
    value = {"content": [{"signature": "sn1.vendor.s"}, {"signature": "sn1.other.t"}]}
    message = structs.replace(part, source=Source("target", value, part))
    done = Projection(request(user("Hi"), message, user("?")))
    assert done.messages[1] == ("assistant", (SIGNED, Text("a")))
    assert done.lost == {"reasoning_dropped": 1}
    untagged = structs.replace(part, source=Source("target", {"content": []}, part))
    asked = request(user("Hi"), untagged, user("?"))
    assert Projection(asked).request is asked
    unsigned = own(assistant("a"))
    asked = request(user("Hi"), unsigned, user("?"))
    assert Projection(asked).request is asked


def test_reasoning_of_the_target_stays_unsigned() -> None:
    asked = request(own(assistant(Reasoning(("why",)), "x")))
    assert Projection(asked).request is asked


def test_text_of_reasoning_goes_back_where_the_server_wants_it() -> None:
    signed, plain, none = Reasoning(("a",), "s", "other"), Reasoning(("b",)), Reasoning(())
    done = blocks_of(signed, plain, none, Text("x"), role="assistant", reasoning_text=True)
    assert done.messages[0][1] == (Reasoning(("a",)), Reasoning(("b",)), Text("x"))
    assert done.lost == {"signature_dropped": 1, "reasoning_dropped": 1}


def test_carried_signatures_are_put_back_on_what_they_sign() -> None:
    for_call = Reasoning((), write_carrier(SignatureCarrier("c", "vendor", "id")), "vendor")
    for_text = RedactedReasoning(write_carrier(SignatureCarrier("t", "vendor")), "vendor")
    alone = RedactedReasoning(write_carrier(SignatureCarrier("u", "vendor")), "vendor")
    foreign = RedactedReasoning(write_carrier(SignatureCarrier("v", "other")), "other")
    asked = request(
        assistant(Text("a"), for_text, alone, foreign, for_call, call("id"), call("jd")),
        user(result("id"), result("jd")),
    )
    assert Projection(asked).messages[0][1] == (
        Text("a", signature="t", issuer="vendor"),
        Text(signature="u", issuer="vendor"),
        call("id", signature="c", issuer="vendor"),
        call("jd"),
    )


def test_what_the_target_wrote_itself_stays_signed() -> None:
    """Gemini's endpoint for OpenAI clients signs calls; the vendor of the dialect signs none."""
    signed = ToolCall("c1", "f", "{}", signature="s", issuer="google")
    answer = own(assistant(Text("Hi", signature="t", issuer="google"), signed))
    asked = request(answer, own(user(result("c1", "ok"))))
    assert Projection(asked, reasoning_issuer=None).request is asked


def test_documents_of_the_target_stay_whatever_its_vendor_has() -> None:
    page = Document(url="https://a.example/a.pdf")
    asked = request(own(user(page, Document("text/plain", "Hi"))))
    limited = Projection(asked, document_urls=False, text_documents=False)
    assert limited.request is asked
    assert limited.lost == {}


def test_a_refusal_is_text_where_there_is_no_field() -> None:
    done = blocks_of(Refusal("No."), Refusal(), role="assistant", refusal=False)
    assert done.messages == [("assistant", (Text("No."),))]
    assert done.lost == {"refusal_as_text": 2}
    assert blocks_of(Refusal("No."), role="assistant").lost == {}


def test_server_history_stays_in_its_dialect() -> None:
    history = (ServerToolCall("s", "search"), ServerToolResult("s", "found"))
    asked = request(own(assistant(*history)))
    assert Projection(asked).request is asked
    done = blocks_of(*history, Text("x"), role="assistant")
    assert done.messages[0][1] == (Text("x"),)
    assert done.lost == {"server_history_dropped": 2}


def test_opaque_blocks_stay_in_their_dialect() -> None:
    mine, other = OpaqueBlock("target", "k", "{}"), OpaqueBlock("other", "k", "{}")
    done = blocks_of(mine, other)
    assert done.messages == [("user", (mine,))]
    assert done.lost == {"opaque_block": 1}


def test_loss_of_a_block_names_the_beginning_of_its_type() -> None:
    done = Projection(request(user("Hi.", OpaqueBlock("other", "k" * 41, "{}"))))
    [loss] = done.losses
    assert loss.detail == f"{'k' * 40} dropped"


def test_reference_to_a_tool_is_text_elsewhere() -> None:
    """A result without any text would make the model search again."""
    reference = OpaqueBlock("other", "tool_reference", '{"tool_name":"get weather"}')
    asked = request(
        assistant(ToolCall("c", "search")),
        user(ToolResult("c", (reference,))),
        tools=(Tool("search"), Tool("get weather")),
    )
    done = Projection(asked, name_pattern="[a-z_]+")
    assert done.messages[1][1] == (ToolResult("c", (Text("[tool get_weather__80af2a19 loaded]"),)),)
    assert done.lost == {"tool_reference": 1, "tool_renamed": 1}
    marked = OpaqueBlock("other", "tool_reference", '{"tool_name":"f"}', cache=CacheMark("1h"))
    assert blocks_of(marked).messages[0][1] == (Text("[tool f loaded]", cache=CacheMark("1h")),)
    mine = OpaqueBlock("target", "tool_reference", "{}")
    assert blocks_of(mine).messages == [("user", (mine,))]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_addition"])
def test_tools_that_a_message_adds_are_offered_from_the_start(kind: str) -> None:
    done = blocks_of(Text("a"), OpaqueBlock("other", kind, "{}"))
    assert done.messages == [("user", (Text("a"),))]
    assert done.lost == {"tools_moved": 1}


def test_images_of_the_assistant_are_dropped_where_it_has_none() -> None:
    assert blocks_of(PNG, role="assistant").messages == [("assistant", (PNG,))]
    done = blocks_of(PNG, Text("x"), role="assistant", assistant_media=False)
    assert done.messages[0][1] == (Text("x"),)
    assert done.lost == {"image_dropped": 1}


@pytest.mark.parametrize(
    ("block", "target", "lost"),
    [
        (Image("image/tiff", "aGk="), {"images": frozenset({"image/png"})}, "image_dropped"),
        (Image(url="https://a.example/b"), {"image_urls": False}, "image_dropped"),
        (Document("application/pdf", "aGk="), {"documents": False}, "document_dropped"),
        (Document(url="https://a.example/b"), {"document_urls": False}, "document_dropped"),
        (Audio("audio/wav", "aGk="), {"audio": False}, "audio_dropped"),
        (Video("video/mp4", "aGk="), {"video": False}, "video_dropped"),
    ],
    ids=repr,
)
def test_files_that_the_target_cannot_carry_are_dropped(
    block: InputBlock, target: dict[str, Any], lost: str
) -> None:
    kept = request(user("x", block))
    assert Projection(kept).request is kept
    done = blocks_of(Text("x"), block, **target)
    assert done.messages == [("user", (Text("x"),))]
    assert done.lost == {lost: 1}


def test_a_text_document_is_text_where_there_is_no_block_for_it() -> None:
    titled, plain = Document("text/plain", "a", title="t"), Document("text/markdown", "b")
    assert blocks_of(titled).lost == {}
    done = blocks_of(titled, plain, text_documents=False)
    assert done.messages[0][1] == (
        Text('<document title="t">\na\n</document>'),
        Text("<document>\nb\n</document>"),
    )
    assert done.lost == {"document_as_text": 2}


def test_resolutions_are_dropped_where_there_is_no_field() -> None:
    low, high, auto = (Image("image/png", "aGk=", detail=d) for d in ("low", "high", "auto"))
    done = blocks_of(low, high, auto, image_details=frozenset({"low"}))
    assert done.messages[0][1] == (low, PNG, PNG)
    assert done.lost == {"detail": 1}


def test_a_file_of_another_vendor_is_an_error_or_dropped() -> None:
    mine, other = Image(file_id="f", issuer="vendor"), Document(file_id="g", issuer="other")
    assert blocks_of(mine).lost == {}
    with pytest.raises(EncodeError, match="file id of another vendor") as caught:
        Projection(request(user("x"), user("y", mine, other)))
    assert caught.value.path == "messages[1].blocks[2]"
    with pytest.raises(EncodeError, match="file id of an unknown vendor"):
        Projection(request(user(Image(file_id="h"))))
    done = Projection(request(user(mine, other, Image(file_id="h"))), repair="fill")
    assert done.messages == [("user", (mine,))]
    assert done.lost == {"file_id_dropped": 2}
    asked = request(own(user(other)))
    assert Projection(asked).request is asked


def test_ids_are_escaped_or_shortened_for_call_and_result_alike() -> None:
    long = "x" * 41
    asked = request(
        assistant(call("functions.f:0"), call("plain"), call(long)),
        user(result("functions.f:0"), result("plain"), result(long)),
    )
    done = Projection(asked, id_pattern="[a-zA-Z0-9_-]+", max_id_chars=40)
    ids = [block.id for block in done.messages[0][1] if isinstance(block, ToolCall)]
    assert ids[:2] == ["snid_functions_2ef_3a0", "plain"]
    assert len(ids[2]) <= 40
    assert [getattr(block, "tool_call_id", "") for block in done.messages[1][1]] == ids


def test_ids_of_a_request_for_this_very_target_stay() -> None:
    asked = request(own(assistant(call("a.b"))), own(user(result("a.b"))))
    assert Projection(asked, same_target=True, id_pattern="[a-z]+").request is asked
    first, second = asked.messages
    more = structs.replace(second, blocks=(result("a.b", "changed"),))
    changed = structs.replace(asked, messages=(first, more))
    assert Projection(changed, same_target=True, id_pattern="[a-z]+").request is changed
    narrowed = Projection(asked, id_pattern="[a-z0-9_]+")
    assert narrowed.messages[0][1] == (call("snid_a_2eb"),)


def test_ids_become_a_hash_where_the_server_has_narrow_rules() -> None:
    asked = request(assistant(call("call_1")), user(result("call_1")))
    done = Projection(asked, id_pattern="[A-Za-z0-9]{9}", max_id_chars=9)
    (made,) = done.messages[0][1]
    assert isinstance(made, ToolCall)
    assert made.id.isalnum()
    assert len(made.id) == 9


def test_what_was_written_for_the_target_stays_as_it_is() -> None:
    """Servers of a dialect take what its vendor does not."""
    failed = own(user(ToolResult("c1", (PNG,), is_error=True)))
    tool = own(Tool("a.b", input_schema={}))
    narrow: dict[str, Any] = {
        "error_results": False,
        "result_media": frozenset(),
        "name_pattern": "[a-z]+",
    }
    asked = own(request(own(assistant(call("c1", "a.b"))), failed, tools=(tool,), temperature=9))
    done = Projection(asked, same_target=True, **narrow)
    assert done.request is asked
    grown = structs.replace(asked, messages=(*asked.messages, user("?")))
    done = Projection(grown, same_target=True, **narrow)
    assert done.request is grown
    assert done.lost == {}


def test_calls_follow_text_where_a_message_has_no_order() -> None:
    message = assistant(call("a"), "after", call("b"))
    asked = request(message, user(result("a"), result("b")))
    done = Projection(asked, ordered_blocks=False)
    assert done.messages[0][1] == (Text("after"), call("a"), call("b"))
    assert done.lost == {"order_lost": 1}
    assert Projection(asked).messages[0][1] == message.blocks
    inverse = request(assistant("x", call("a")), user(result("a")))
    assert Projection(inverse, ordered_blocks=False).request is inverse


def test_extra_fields_within_a_result_are_lost_by_name() -> None:
    inner = Text("ok", extra={"other": {"phase": 1}})
    done = Projection(request(assistant(call("a")), user(ToolResult("a", (inner,)))))
    assert done.messages[1][1] == (result("a"),)
    assert done.lost == {"phase": 1}
    image = Image(url="https://a/b.png", extra={"other": {"transformations": {}}})
    done = Projection(request(assistant(call("a")), user(ToolResult("a", (image,)))))
    assert done.messages[1][1] == (ToolResult("a", (Image(url="https://a/b.png"),)),)
    assert done.lost == {"transformations": 1}


def test_calls_stand_together_where_nothing_may_be_between_them() -> None:
    message = assistant(call("a"), "x", call("b"))
    asked = request(message, user(result("a"), result("b")))
    done = Projection(asked, adjacent_calls=True)
    assert done.messages[0][1] == (Text("x"), call("a"), call("b"))


def test_files_of_types_that_results_cannot_have_move_behind_them() -> None:
    from streamnorm import ToolResult

    answer = ToolResult("a", (PNG, Image("image/gif", "aGk=")))
    asked = request(assistant(call("a")), user(answer))
    done = Projection(asked, result_media_types=frozenset({"image/png"}))
    assert done.messages[1:] == [
        ("user", (ToolResult("a", (PNG,)),)),
        ("user", (Text("[image of tool result a]"), Image("image/gif", "aGk="))),
    ]


SUMMARY = OpaqueBlock("other", "compaction", '{"type":"compaction","content":"We built X."}')
SEALED = ServerToolCall("", "compaction", '{"encrypted_content":"gAAA"}', "compaction")


def test_summary_of_a_conversation_is_text_for_another_vendor() -> None:
    done = blocks_of(SUMMARY, Text("And?"), role="assistant")
    summary = Text("<summary>\nWe built X.\n</summary>")
    assert done.messages == [("assistant", (summary, Text("And?")))]
    assert done.lost == {"compaction": 1}
    kept = structs.replace(SUMMARY, dialect="target")
    mine = own(request(own(InputMessage("assistant", (kept,)))))
    assert Projection(mine).request is mine


@pytest.mark.parametrize(
    "block",
    [SEALED, OpaqueBlock("other", "compaction", '{"content":null,"encrypted_content":"x"}')],
)
def test_compaction_that_only_its_provider_reads_is_an_error(block: InputBlock) -> None:
    """The model would know nothing of what was said."""
    asked = request(InputMessage("assistant", (block,)), user("Go on"))
    with pytest.raises(EncodeError, match="a compaction that only its provider reads") as caught:
        Projection(asked)
    assert caught.value.path == "messages[0].blocks[0]"
    assert Projection(asked, "fill").lost["server_history_dropped"] == 1
    mine = own(request(own(InputMessage("assistant", (SEALED,)))))
    assert Projection(mine).request is mine


def test_compaction_that_failed_is_dropped() -> None:
    for block in (
        OpaqueBlock("other", "compaction", '{"content":null}'),
        ServerToolCall("", "compaction", "", "compaction"),
    ):
        done = blocks_of(block, Text("Hi"), role="assistant")
        assert done.messages == [("assistant", (Text("Hi"),))]
        assert done.lost == {"server_history_dropped": 1}


@pytest.mark.parametrize("required", [True, "calls"])
def test_reasoning_is_empty_where_a_server_demands_some(required: Any) -> None:
    thought = assistant(Reasoning(("why",)), call("a"))
    asked = request(
        assistant("x"), assistant(call("b")), user(result("b")), thought, user(result("a"))
    )
    done = Projection(asked, reasoning_text=True, reasoning_required=required)
    empty = Reasoning(("",))
    assert done.messages[0][1] == ((empty, Text("x")) if required is True else (Text("x"),))
    assert done.messages[1][1] == (empty, call("b"))
    assert done.messages[3][1] == thought.blocks
    mine = request(own(assistant(call("b"))), own(user(result("b"))))
    assert Projection(mine, reasoning_required=required, same_target=True).request is mine
    served = Projection(mine, reasoning_required=required)
    assert served.messages[0][1] == (empty, call("b"))


def test_ids_of_the_dialect_that_a_server_refuses_are_changed_with_a_loss() -> None:
    asked = own(
        request(own(user("q")), own(assistant(call("call_1"))), own(user(result("call_1"))))
    )
    assert Projection(asked, only_refusals=True).request is asked
    done = Projection(asked, only_refusals=True, id_pattern="[a-z0-9]{9}", max_id_chars=9)
    (written,) = done.request.messages[1].tool_calls
    assert len(written.id) == 9
    assert done.request.messages[2].tool_results[0].tool_call_id == written.id
    assert done.lost == {"tool_id_changed": 1}


def test_citations_of_the_dialect_stay_for_its_servers() -> None:
    cited = Text("a", (Citation("unknown"),))
    asked = own(request(own(user("q")), own(assistant(cited))))
    assert Projection(asked, only_refusals=True).request is asked


def test_reasoning_of_the_dialect_is_demanded_where_it_is_written() -> None:
    """The writer adds it, so that the rest of the message stays spelt as it was."""
    asked = own(request(own(user("q")), own(assistant("a"))))
    assert Projection(asked, only_refusals=True, reasoning_required=True).request is asked


def test_call_of_the_dialect_without_an_id_is_given_none() -> None:
    asked = own(request(own(user("q")), own(assistant(call("")))))
    assert Projection(asked, only_refusals=True, max_id_chars=9, id_pattern=".{9}").request is asked
