"""What a server with the checks of a dialect's vendor refuses of the vendor's own clients, too."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import (
    ALL_FIELDS,
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
    CacheMark,
    EncodeError,
    InputMessage,
    OpaqueBlock,
    OutputFormat,
    Reasoning,
    ReasoningOptions,
    RedactedReasoning,
    Request,
    Text,
    Tool,
    ToolResult,
)
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm._core.tools import ServerTool
from streamnorm.tools import MCPServer

MARK = CacheMark()
SIGNED = Reasoning(("t",), "c2ln", "vendor")
BUDGET = ReasoningOptions("budget", budget_tokens=4096)
BOUNDED: dict[str, Any] = {
    "thinking": "budget",
    "bounded_budgets": True,
    "signed_budgets": True,
}


def written(*messages: InputMessage, **fields: Any) -> Request:
    """Return a request that was read from the target's dialect, with its messages."""
    return own(request(*map(own, messages), **fields))


def checked(asked: Request, repair: RepairPolicy = "error", **target: Any) -> Projection:
    """Return a request for a named server that applies the vendor's checks."""
    return Projection(
        asked, repair, named=True, vendor_checks=True, signature_pattern="[a-zA-Z0-9]+", **target
    )


def test_what_the_vendor_accepts_stays() -> None:
    asked = written(
        user("a"),
        assistant(SIGNED, call("c")),
        user(result("c"), "b"),
        system=(Text("s"),),
        max_tokens=9,
    )
    assert checked(asked, max_tokens=100).request is asked


def test_blank_texts_of_the_vendor_s_clients_are_dropped() -> None:
    asked = written(
        user("a", " ", Text("", cache=MARK)),
        assistant(""),
        user(Text("b", cache=MARK)),
        system=(Text(""), Text(" ", cache=MARK), Text("s")),
    )
    done = checked(asked)
    assert done.messages == [("user", (Text("a"),)), ("user", (Text("b", cache=MARK),))]
    assert done.request.system == (Text("s"),)
    assert done.lost == {"cache_mark_dropped": 2, "empty_message_dropped": 1}
    assert Projection(asked).request is asked


def test_blank_texts_in_results_of_the_vendor_s_clients_are_dropped() -> None:
    blank = ToolResult("c", (Text("r"), Text("\n")))
    asked = written(user("a"), assistant(call("c")), user(blank))
    assert checked(asked).messages[2][1] == (result("c", "r"),)
    assert Projection(asked).request is asked


def test_a_message_of_the_system_may_change_other_things_alone() -> None:
    silent = structs.replace(system(), extra={"target": {"effort": "low"}})
    asked = written(user("a"), silent)
    assert checked(asked, inline_system="after_user").request is asked


def test_a_request_without_messages_is_an_error() -> None:
    with pytest.raises(EncodeError, match="messages: no messages, expected at least one"):
        checked(written(user(" ")))


def test_default_of_the_tokens_is_written_where_they_are_needed() -> None:
    asked = written(user("a"))
    done = checked(asked, max_tokens=100)
    assert done.request.max_tokens == 100
    assert done.lost == {"max_tokens_defaulted": 1}
    assert Projection(asked, max_tokens=100).request is asked


@pytest.mark.parametrize(
    "block",
    [
        Reasoning(("t",)),
        Reasoning(("t",), "", "vendor"),
        Reasoning(("t",), "a b", "vendor"),
        Reasoning(("t",), "c2ln", "another"),
        RedactedReasoning("c2ln", "another"),
    ],
    ids=repr,
)
def test_reasoning_that_the_vendor_did_not_sign_is_dropped(
    block: Reasoning | RedactedReasoning,
) -> None:
    asked = written(user("a"), assistant(block, "b"), user("c"))
    done = checked(asked)
    assert done.messages[1] == ("assistant", (Text("b"),))
    assert done.lost == {"reasoning_dropped": 1}
    assert Projection(asked).request is asked
    # A history that has been through several vendors goes to the vendor itself.
    mixed = structs.replace(asked, source=None)
    through = Projection(mixed, vendor_checks=True, signature_pattern="[a-zA-Z0-9]+")
    assert through.messages == done.messages


def test_foreign_reasoning_without_a_legal_signature_is_dropped() -> None:
    asked = request(user("a"), assistant(Reasoning(("t",), "a b", "vendor"), "b"), user("c"))
    assert checked(asked).messages[1] == ("assistant", (Text("b"),))


def test_calls_with_one_id_get_several() -> None:
    asked = written(
        *(user("a"), assistant(call("c")), user(result("c"))),
        *(assistant(call("c")), user(result("c"))),
    )
    done = checked(asked, unique_ids=True)
    assert done.messages[3:] == [
        ("assistant", (call("c_2"),)),
        ("user", (result("c_2"),)),
    ]
    assert done.lost == {"tool_id_changed": 1}
    assert Projection(asked, unique_ids=True).request is asked


def test_results_stand_where_the_vendor_wants_them() -> None:
    asked = written(user("a"), assistant(call("c"), call("d")), user("x"), user(result("d")))
    with pytest.raises(EncodeError, match="call without a result"):
        checked(asked)
    done = checked(asked, "fill")
    assert [block.tool_call_id for block in done.messages[2][1]] == ["c", "d"]  # type: ignore[union-attr]  # results
    state = structs.replace(asked, state={"thread": {}})
    assert checked(own(state)).request.messages == asked.messages


def test_a_reference_names_a_tool_that_is_offered() -> None:
    reference = OpaqueBlock("target", "tool_reference", '{"tool_name":"g"}')
    found = ToolResult("c", (reference,))
    asked = written(user("a"), assistant(call("c")), user(found), tools=(Tool("f"),))
    done = checked(asked, result_media=frozenset({"opaque"}))
    assert done.messages[2][1] == (ToolResult("c", (Text("[tool g loaded]"),)),)
    assert done.lost == {"tool_reference": 1}
    for more in (
        Tool("g"),
        MCPServer("docs", "https://example.com/mcp"),
        ServerTool("computer_toolset", "target", {}),
    ):
        offered = structs.replace(asked, tools=(Tool("f"), more))
        kept = checked(own(offered), result_media=frozenset({"opaque"}))
        assert kept.messages[2][1] == (found,)


def test_instructions_of_the_vendor_s_clients_move_behind_the_user() -> None:
    asked = written(user("a"), system("s"), user("b"))
    done = checked(asked, inline_system="after_user")
    assert [role for role, _ in done.messages] == ["user", "user", "system"]
    assert done.lost == {"system_moved": 1}


def test_several_instructions_in_a_row_are_one() -> None:
    limited = structs.replace(system("s"), extra={"target": {"clear_at": "never"}})
    for asked, lost in (
        (request(user("a"), system("s"), system("t")), {"messages_merged": 1}),
        (written(user("a"), limited, system("t")), {"messages_merged": 1, "clear_at": 1}),
    ):
        done = checked(asked, inline_system="after_user")
        assert done.messages == [("user", (Text("a"),)), ("system", (Text("s"), Text("t")))]
        assert done.lost == lost


def test_fields_of_instructions_are_lost_with_them() -> None:
    limited = structs.replace(system("s"), extra={"target": {"clear_at": "never"}})
    done = checked(written(user("a"), limited), inline_system="text")
    text = Text("<system>\ns\n</system>")
    assert done.request.messages[1] == InputMessage("user", (text,))
    assert done.lost == {"system_demoted": 1, "clear_at": 1}


PAUSED = OpaqueBlock("target", "compaction", "{}")


def test_instructions_may_follow_an_answer_that_waits_for_the_server() -> None:
    asked = written(user("a"), assistant("b", PAUSED), system("s"), assistant("c"), user("d"))
    assert checked(asked, inline_system="after_user").request is asked


def test_a_last_message_of_the_assistant_is_dropped_where_it_is_refused() -> None:
    asked = request(user("a"), assistant("b"), user("c"), assistant("d"), assistant("e"))
    done = Projection(asked, assistant_last=False, prefill=False)
    assert done.request.messages == asked.messages[:3]
    assert done.lost == {"prefill_dropped": 2}
    # The encoding of a longer history begins with that of the shorter one.
    longer = request(*asked.messages, user("f"))
    assert Projection(longer, assistant_last=False).request is longer
    mine = own(asked)
    assert Projection(mine, assistant_last=False).request is mine
    assert len(checked(mine, assistant_last=False).messages) == 3


def test_a_last_message_of_the_assistant_is_dropped_beside_a_schema() -> None:
    output = OutputFormat("json_schema", {"type": "object"})
    asked = request(user("a"), assistant("b"), output=output)
    done = Projection(asked, prefill_with_schema=False)
    assert (done.request.messages, done.lost) == (asked.messages[:1], {"prefill_dropped": 1})
    assert Projection(asked).request is asked
    mine = own(asked)
    assert Projection(mine, prefill_with_schema=False).request is mine
    assert len(checked(mine, prefill_with_schema=False).messages) == 1
    kinds: dict[str, Any] = {"output_kinds": frozenset({"json_object"})}
    left = Projection(asked, prefill_with_schema=False, **kinds)
    assert (left.request.messages, left.lost) == (asked.messages, {"schema_dropped": 1})
    free: dict[str, Any] = {"fields": ALL_FIELDS - {"output"}}
    assert len(Projection(asked, prefill_with_schema=False, **free).request.messages) == 2
    plain = request(user("a"), assistant("b"), output=OutputFormat("text"))
    assert Projection(plain, prefill_with_schema=False).request is plain


def test_an_answer_that_waits_for_the_server_stays_last() -> None:
    asked = written(user("a"), assistant("b", PAUSED))
    assert checked(asked, assistant_last=False).request is asked
    other = OpaqueBlock("target", "odd", "{}")
    assert len(checked(written(user("a"), assistant(other)), assistant_last=False).messages) == 1


def test_a_budget_is_refused_after_calls_without_signed_reasoning() -> None:
    loop = (user("q"), assistant(Reasoning(("t",)), call("c")), user(result("c")))
    asked = written(*loop, reasoning=BUDGET, max_tokens=9000)
    done = checked(asked, **BOUNDED)
    assert done.request.reasoning == ReasoningOptions("off")
    assert done.lost == {"reasoning_dropped": 1, "reasoning": 1}
    # Other servers take their own reasoning without a signature.
    assert Projection(asked, named=True, **BOUNDED).request is asked


def test_a_budget_is_refused_where_an_answer_goes_on_without_reasoning() -> None:
    begun = written(user("q"), assistant("So:"), reasoning=BUDGET, max_tokens=9000)
    assert checked(begun, **BOUNDED).request.reasoning == ReasoningOptions("off")
    thought = written(user("q"), assistant(SIGNED, "So:"), reasoning=BUDGET, max_tokens=9000)
    assert checked(thought, **BOUNDED).request is thought
    # Without a prefill, the answer before it counts.
    dropped = checked(begun, assistant_last=False, **BOUNDED)
    assert dropped.request.reasoning == BUDGET


def test_messages_of_the_assistant_in_a_row_are_one_answer() -> None:
    asked = written(
        *(user("q"), assistant("I call."), assistant(SIGNED, call("c")), user(result("c"))),
        reasoning=BUDGET,
        max_tokens=9000,
    )
    assert checked(asked, **BOUNDED).request.reasoning == ReasoningOptions("off")


def test_a_budget_of_the_vendor_s_clients_is_brought_into_bounds() -> None:
    asked = written(user("q"), reasoning=BUDGET, max_tokens=4096)
    done = checked(asked, only_refusals=True, **BOUNDED)
    assert done.request.reasoning == ReasoningOptions("budget", budget_tokens=3072)
    assert done.lost == {"budget_changed": 1}
    legal = written(user("q"), reasoning=BUDGET, max_tokens=4097)
    assert checked(legal, only_refusals=True, **BOUNDED).request is legal
    small = written(user("q"), reasoning=BUDGET, max_tokens=1024)
    off = checked(small, only_refusals=True, **BOUNDED)
    assert off.request.reasoning == ReasoningOptions("off")
    assert off.lost == {"reasoning": 1}
