"""Further results of one custom call, as Codex sends them."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.projection_targets import Projection, assistant, call, request, result, user

from streamnorm import EncodeError, Text, ToolCall, ToolResult


def custom(id: str) -> ToolCall:
    """Return a call with free text, as Codex's `exec`."""
    return ToolCall(id, "exec", "notify(1)", kind="custom")


def note(id: str, text: str) -> ToolResult:
    """Return a result that names its tool: Codex adds those of `notify()` to a custom call."""
    return result(id, text, name="exec")


@pytest.mark.parametrize("repair", ["error", "fill"])
def test_further_results_of_a_custom_call_are_joined_to_its_result(repair: Any) -> None:
    asked = request(
        user("Go"),
        assistant(custom("a"), custom("b")),
        user(result("a")),
        user(result("b")),
        user(note("a", "one")),
        user(note("a", "one")),
    )
    done = Projection(asked, repair=repair)
    assert done.messages[2:] == [
        ("user", (ToolResult("a", (Text("ok"), Text("one"), Text("one"))), result("b"))),
    ]
    assert done.lost == {"results_joined": 2}


@pytest.mark.parametrize("repair", ["error", "fill"])
def test_further_results_of_an_earlier_custom_call_are_user_content(repair: Any) -> None:
    asked = request(
        user("Go"),
        assistant(custom("a")),
        user(result("a")),
        assistant(call("b")),
        user(note("a", "one"), result("b")),
        assistant("Done."),
        user(note("a", "two")),
    )
    done = Projection(asked, repair=repair)
    assert done.messages[4:] == [
        ("user", (result("b"),)),
        ("user", (Text("[result of tool call a]"), Text("one"))),
        ("assistant", (Text("Done."),)),
        ("user", (Text("[result of tool call a]"), Text("two"))),
    ]
    assert done.lost["late_result"] == 2


@pytest.mark.parametrize(
    "asked",
    [
        request(assistant(custom("a")), user(result("a"), result("a", "no"))),
        request(assistant(call("a")), user(result("a"), note("a", "no"))),
    ],
)
def test_other_second_results_are_an_error(asked: Any) -> None:
    with pytest.raises(EncodeError, match="another result of the same call"):
        Projection(asked)


@pytest.mark.parametrize("first", [custom("a"), call("a")])
def test_other_late_results_are_an_error(first: ToolCall) -> None:
    late = result("a", "no", name="exec" if first.kind == "function" else "")
    asked = request(assistant(first), user(result("a")), assistant("Done."), user(late))
    with pytest.raises(EncodeError, match="result after the next assistant message"):
        Projection(asked)
