"""Tools and the choice among them, with names that lead back to the client's."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import Projection, assistant, own, request, user

from streamnorm import EncodeError, Loss, ReasoningOptions, Tool, ToolCall, ToolChoice, ToolResult
from streamnorm._core.bodies.request import Source, ToolName
from streamnorm.tools import CustomTool, Grammar, MCPServer, Namespace, ServerTool

PATCH = CustomTool("apply_patch", "Edit files.", Grammar("lark", "start: /.+/"))
CRM = Namespace("crm", "CRM")
FLAT: dict[str, Any] = {"namespaces": False}
WRAPPED: dict[str, Any] = {"custom_tools": False}


def offered(*tools: Any, choice: ToolChoice | None = None, **target: Any) -> Projection:
    return Projection(request(user("Go"), tools=tools, tool_choice=choice), **target)


def test_tools_that_the_target_has_stay() -> None:
    tools = (Tool("f", strict=True, deferred=True, namespace=CRM), PATCH, MCPServer("m", "u"))
    asked = request(user("Go"), tools=tools, tool_choice=ToolChoice("named", ("f",)))
    done = Projection(asked)
    assert done.request is asked
    assert done.reply.tools == {}


def test_a_custom_tool_is_wrapped_with_its_grammar_in_the_description() -> None:
    done = offered(
        PATCH, CustomTool("x", grammar=Grammar("regex", "a+")), CustomTool("y"), **WRAPPED
    )
    schema = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    grammar = "The value of `input` must match this {} grammar:\n{}"
    assert done.request.tools == (
        Tool(
            "apply_patch",
            "Edit files.\n\n" + grammar.format("lark", "start: /.+/"),
            schema,
        ),
        Tool("x", grammar.format("regex", "a+"), schema),
        Tool("y", None, schema),
    )
    assert done.reply.tools == {
        name: ToolName(name, None, True) for name in ("apply_patch", "x", "y")
    }
    assert done.lost == {"custom_tool_wrapped": 3}


def test_calls_of_a_wrapped_tool_have_its_text_as_input() -> None:
    call = ToolCall("c", "apply_patch", '*** "x"\n', "custom")
    asked = request(assistant(call), user(ToolResult("c")), tools=(PATCH,))
    done = Projection(asked, **WRAPPED)
    assert done.messages[0][1] == (
        ToolCall("c", "apply_patch", '{"input":"*** \\"x\\"\\n"}', "function"),
    )


def test_calls_of_a_wrapped_tool_lose_the_id_of_their_item() -> None:
    """An item of another type would have the id of a custom call's (`ctc_…`)."""
    fields = ({"id": "ctc_1", "status": "completed"}, {"id": "ctc_2"}, {"status": "completed"})
    calls = [
        ToolCall(f"c{number}", "apply_patch", "ls", "custom", extra={"target": extra})
        for number, extra in enumerate(fields)
    ]
    results = [ToolResult(call.id) for call in calls]
    asked = request(assistant(*calls), user(*results), tools=(PATCH,))
    done = Projection(asked, **WRAPPED)
    assert [getattr(block, "extra") for block in done.messages[0][1]] == [  # noqa: B009 - calls
        {"target": {"status": "completed"}},
        None,
        {"target": {"status": "completed"}},
    ]
    assert [call.extra for call in Projection(asked).messages[0][1]] == [
        {"target": extra} for extra in fields
    ]


def test_namespaces_are_flattened_in_tools_history_and_choice() -> None:
    asked = request(
        assistant(ToolCall("c", "get", "{}", namespace="crm"), ToolCall("d", "get", "{}")),
        user(ToolResult("c", name="get"), ToolResult("d", name="get")),
        tools=(Tool("get", namespace=CRM), CustomTool("put", namespace=CRM)),
        tool_choice=ToolChoice("named", ("get",)),
    )
    done = Projection(asked, **FLAT)
    assert done.request.tools == (Tool("crm__get"), CustomTool("crm__put"))
    assert done.messages[0][1] == (ToolCall("c", "crm__get", "{}"), ToolCall("d", "get", "{}"))
    assert done.messages[1][1] == (
        ToolResult("c", name="crm__get"),
        ToolResult("d", name="get"),
    )
    assert done.request.tool_choice == ToolChoice("named", ("crm__get",))
    assert done.reply.tools == {
        "crm__get": ToolName("get", "crm"),
        "crm__put": ToolName("put", "crm", is_custom=True),
    }
    assert done.lost == {"namespace_flattened": 3}  # with the description, once
    undescribed = (Tool("get", namespace=Namespace("crm")), Tool("put", namespace=Namespace("crm")))
    assert offered(*undescribed, **FLAT).lost == {"namespace_flattened": 2}


def test_a_flattened_name_that_another_tool_has_is_an_error() -> None:
    for tools in (
        (Tool("get", namespace=CRM), Tool("crm__get")),
        (Tool("crm__get"), Tool("get", namespace=CRM)),
    ):
        with pytest.raises(EncodeError, match="name of another tool") as caught:
            offered(*tools, **FLAT)
        assert caught.value.path == "tools[1]"


def test_a_name_that_the_target_refuses_is_changed_for_tool_and_call_alike() -> None:
    name = "9 tools/" + "x" * 60
    call = ToolCall("c", name)
    asked = request(
        assistant(call), user(ToolResult("c", name=name)), tools=(Tool(name), Tool("***"))
    )
    done = Projection(asked, name_pattern="[A-Za-z_][A-Za-z0-9_-]{0,63}")
    (written, other) = (tool.name for tool in done.request.tools if isinstance(tool, Tool))
    assert written.startswith("_tools_xxx")
    assert len(written) <= 50
    assert other.startswith("___")
    (made,) = done.messages[0][1]
    assert isinstance(made, ToolCall)
    assert made.name == written
    (answer,) = done.messages[1][1]
    assert isinstance(answer, ToolResult)
    assert answer.name == written
    assert done.reply.tools[written] == ToolName(name)
    assert done.lost == {"tool_renamed": 2}
    digits = offered(Tool("1" * 99), name_pattern="[a-z]{1,9}.*")
    assert getattr(digits.request.tools[0], "name", "").startswith("tool__")


def test_illegal_names_of_several_namespaces_stay_apart() -> None:
    tools = (Tool("é", namespace=Namespace("a")), Tool("é", namespace=Namespace("b")))
    done = offered(*tools, name_pattern="[A-Za-z0-9_-]+")
    names = [tool.name for tool in done.request.tools if isinstance(tool, Tool)]
    assert [done.reply.tools[name] for name in names] == [ToolName("é", "a"), ToolName("é", "b")]


def test_deferred_tools_are_loaded_where_there_is_no_search() -> None:
    done = offered(Tool("f", deferred=True), deferred_tools=False)
    assert done.request.tools == (Tool("f"),)
    assert done.lost == {"deferred_tool_loaded": 1}


def test_deferred_tools_of_another_dialect_are_loaded_where_nothing_finds_them() -> None:
    """Their client searches itself, and loads them by messages that the target does not have."""
    tools = (Tool("f", deferred=True), CustomTool("g", deferred=True))
    foreign = [structs.replace(tool, source=Source("other", {}, tool)) for tool in tools]
    search = ServerTool("tool_search", "other")
    for beside in (Tool("h"), search):  # of which the second has no counterpart
        done = offered(*foreign, beside, server_tools={})
        assert [getattr(tool, "deferred", None) for tool in done.request.tools[:2]] == [False] * 2
        assert done.lost["deferred_tool_loaded"] == 2
    for offer in (
        [*foreign, search],
        [*foreign, ServerTool("tool_search", "target")],
        [own(tool) for tool in tools],
        tools,
    ):
        done = offered(*offer, server_tools={"tool_search": frozenset()})
        assert [getattr(tool, "deferred", None) for tool in done.request.tools[:2]] == [True] * 2
        assert done.lost == {}


def test_strict_is_dropped_where_there_is_no_field() -> None:
    done = offered(Tool("f", strict=True), Tool("g", strict=False), strict_tools=False)
    assert done.request.tools == (Tool("f"), Tool("g"))
    assert done.lost == {"strict": 1}


def test_a_vendor_s_own_tool_is_a_function_elsewhere() -> None:
    bash = Tool("bash", input_schema={"type": "object"}, vendor_type="bash_20250124")
    assert offered(bash).request.tools == (Tool("bash", input_schema={"type": "object"}),)
    asked = request(user("Go"), tools=(own(bash),))
    assert Projection(asked).request is asked


def test_server_tools_become_the_target_s_or_are_dropped() -> None:
    search = ServerTool(
        "web_search",
        "other",
        {"type": "web_search", "name": "web_search", "size": "low", "none": None},
        allowed_domains=("a",),
        max_uses=3,
    )
    done = offered(search, ServerTool("code_execution", "other"))
    assert done.request.tools == (ServerTool("web_search", "other", {}, allowed_domains=("a",)),)
    assert done.lost == {"max_uses": 1, "size": 1, "server_tool_dropped": 1}
    asked = request(user("Go"), tools=(own(ServerTool("computer", "target", {"a": 1})),))
    assert Projection(asked).request is asked


def test_fields_of_a_server_tool_may_stand_in_an_object_of_its_name() -> None:
    domains = {"excludeDomains": ["a"], "timeRange": {}, "none": None}
    search = ServerTool("web_search", "other", {"search": domains}, blocked_domains=("a",))
    assert offered(search).lost == {"blocked_domains": 1, "timeRange": 1}
    assert offered(ServerTool("web_search", "other", {"search": {}})).lost == {}
    assert offered(ServerTool("web_search", "other", {"size": "low"})).lost == {"size": 1}


def test_location_of_a_search_stays_where_the_target_has_a_field() -> None:
    data = {"type": "search", "user_location": {"city": "Rome"}}
    search = ServerTool("web_search", "other", data, user_location={"city": "Rome"})
    done = offered(search, server_tools={"web_search": frozenset({"user_location"})})
    (tool,) = done.request.tools
    assert isinstance(tool, ServerTool)
    assert (tool.user_location, done.lost) == ({"city": "Rome"}, {})
    assert offered(search, server_tools={"web_search": frozenset()}).lost == {"user_location": 1}
    of_another_form = ServerTool("web_search", "other", {"user_location": {"street": "Corso"}})
    assert offered(of_another_form).lost == {"user_location": 1}


def test_mcp_servers_lose_what_the_target_has_no_field_for() -> None:
    server = MCPServer("w", "u", "tok", {"a": "b"}, ("read",), "never")
    done = offered(server, mcp_servers=frozenset({"authorization"}))
    assert done.request.tools == (MCPServer("w", "u", "tok"),)
    assert done.lost == {"headers": 1, "allowed_tools": 1, "require_approval": 1}
    none = offered(server, mcp_servers=None, missing_tools="drop")
    assert none.request.tools == ()
    assert none.lost == {"mcp_server_dropped": 1}


def test_more_tools_than_the_target_allows_are_an_error() -> None:
    with pytest.raises(EncodeError, match="2 tools, expected at most 1"):
        offered(Tool("f"), Tool("g"), max_tools=1)
    assert len(offered(Tool("f"), max_tools=1).request.tools) == 1


def test_allowed_tools_are_the_only_ones_where_a_choice_cannot_name_them() -> None:
    choice = ToolChoice("required", ("f",))
    kept = offered(Tool("f"), Tool("g"), choice=choice)
    assert kept.request.tool_choice == choice
    done = offered(Tool("f"), Tool("g"), choice=choice, restricted_choice=False)
    assert done.request.tools == (Tool("f"),)
    assert done.request.tool_choice == ToolChoice("required")
    assert done.lost == {"allowed_tools_filtered": 1}


def test_a_choice_that_the_model_refuses_is_weakened() -> None:
    target = {"choices_of_tool": frozenset({"auto", "none"})}
    done = offered(Tool("f"), choice=ToolChoice("named", ("f",)), **target)
    assert done.request.tool_choice == ToolChoice("auto")
    assert done.lost == {"tool_choice_weakened": 1}


@pytest.mark.parametrize(
    "choice",
    [
        ToolChoice("named", (), "file_search"),
        ToolChoice("named", ("docs",), "mcp"),
        ToolChoice("named", ("other",), "mcp"),
    ],
    ids=repr,
)
def test_a_choice_of_a_server_tool_that_is_not_offered_is_weakened(choice: ToolChoice) -> None:
    tools = (Tool("f"), ServerTool("file_search", "other"), MCPServer("docs", "u"))
    asked = request(user("Go"), tools=tools, tool_choice=choice)
    done = Projection(asked, missing_tools="drop", mcp_servers=None)
    assert done.request.tool_choice == ToolChoice("auto")
    assert done.lost["tool_choice_weakened"] == 1
    mine = Projection(own(asked), missing_tools="drop", mcp_servers=None)
    assert mine.request.tool_choice == choice


# Tools of the provider that a choice allows, or bars

SEARCH, CODE = ServerTool("web_search", "other"), ServerTool("code_execution", "target")
OFFERED = (Tool("f"), CustomTool("g"), SEARCH, CODE, MCPServer("docs", "u"))


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (ToolChoice("required", server_kinds=("web_search",)), ("web_search",)),
        (ToolChoice("auto", ("f",), server_kinds=("code_execution",)), ("f", "code_execution")),
        (ToolChoice("auto", ("g", "h"), server_kinds=("mcp",)), ("g", "docs")),
        (ToolChoice("required", ("h",), server_kinds=("web_search",)), ("web_search",)),
    ],
)
@pytest.mark.parametrize("restricts", [True, False])
def test_tools_beside_an_allowed_server_tool_are_not_offered(
    choice: ToolChoice, left: tuple[str, ...], restricts: bool
) -> None:
    done = offered(*OFFERED, choice=choice, restricted_choice=restricts)
    names = [
        tool.kind if isinstance(tool, ServerTool) else tool.name for tool in done.request.tools
    ]
    assert tuple(names) == left
    assert done.request.tool_choice == ToolChoice(choice.mode)
    assert done.lost["allowed_tools_filtered"] == 1
    mine = own(request(user("Go"), tools=OFFERED, tool_choice=choice))
    assert Projection(mine).request.tool_choice == choice


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (ToolChoice("required", ("f", "gone")), ToolChoice("named", ("f",))),
        (ToolChoice("auto", ("f", "gone")), ToolChoice("auto", ("f",))),
        (ToolChoice("required", ("f", "gone", "g")), ToolChoice("required", ("f", "g"))),
    ],
)
def test_choice_is_of_tools_that_are_offered(choice: ToolChoice, left: ToolChoice) -> None:
    done = offered(Tool("f"), Tool("g"), choice=choice)
    assert done.request.tool_choice == left
    [loss] = [each for each in done.losses if each.feature == "tool_choice"]
    assert loss.detail == "tools that are not offered left out"


@pytest.mark.parametrize("choice", [ToolChoice("none"), ToolChoice("auto", ("f",))])
def test_server_tool_that_may_not_be_called_is_not_offered_where_a_choice_does_not_bar_it(
    choice: ToolChoice,
) -> None:
    target: dict[str, Any] = {"restricted_choice": True, "chooses_server_tools": False}
    done = offered(Tool("f"), SEARCH, MCPServer("docs", "u"), choice=choice, **target)
    assert (done.request.tools, done.request.tool_choice) == ((Tool("f"),), choice)
    assert done.lost == {"server_tool_dropped": 2}
    only = offered(SEARCH, choice=ToolChoice("none"), **target)
    assert (only.request.tools, only.request.tool_choice) == ((), None)
    assert only.lost == {"server_tool_dropped": 1}
    mine = own(request(user("Go"), tools=(Tool("f"), CODE), tool_choice=choice))
    assert Projection(mine, **target).request.tools == mine.tools
    assert offered(Tool("f"), SEARCH, choice=choice, restricted_choice=True).lost == {}
    for free in (None, ToolChoice("auto"), ToolChoice("required")):
        assert offered(Tool("f"), SEARCH, choice=free, **target).lost == {}


def test_a_choice_of_a_server_tool_that_is_offered_stays() -> None:
    tools = (Tool("f"), ServerTool("web_search", "other"), MCPServer("docs", "u"))
    for choice in (ToolChoice("named", (), "web_search"), ToolChoice("named", ("docs",), "mcp")):
        done = offered(*tools, choice=choice)
        assert done.request.tool_choice == choice
        assert done.lost == {}


def test_a_choice_of_a_wrapped_tool_names_a_function() -> None:
    choice = ToolChoice("named", ("apply_patch",), "custom")
    assert offered(PATCH, choice=choice).request.tool_choice == choice
    done = offered(PATCH, choice=choice, **WRAPPED)
    assert done.request.tool_choice == ToolChoice("named", ("apply_patch",))


def test_a_choice_falls_with_the_last_tool() -> None:
    dropped = ServerTool("computer", "other")
    done = offered(dropped, choice=ToolChoice("required"), missing_tools="drop")
    assert done.request.tool_choice is None
    assert done.lost == {"server_tool_dropped": 1, "tool_choice": 1}
    none = offered(dropped, choice=ToolChoice("none"))
    assert none.request.tool_choice == ToolChoice("none")
    alone = Projection(request(user("Go"), tool_choice=ToolChoice("auto")))
    assert alone.request.tool_choice == ToolChoice("auto")


def test_a_choice_without_tools_is_dropped_where_it_is_refused() -> None:
    asked = request(user("Go"), tool_choice=ToolChoice("none"))
    done = Projection(asked, lone_choice=False)
    assert done.request.tool_choice is None
    assert done.lost == {"tool_choice": 1}
    assert Projection(asked).request is asked
    mine = own(asked)
    assert Projection(mine, lone_choice=False).request is mine
    assert Projection(mine, lone_choice=False, named=True).request.tool_choice is None


def test_a_choice_is_weakened_beside_a_budget() -> None:
    target: dict[str, Any] = {"thinking": "budget", "budget_choices": frozenset({"auto", "none"})}
    for options, expected in (
        (ReasoningOptions("budget", budget_tokens=2048), "auto"),
        (ReasoningOptions("adaptive"), "required"),
        (None, "required"),
    ):
        asked = request(
            user("Go"),
            tools=(Tool("f"),),
            tool_choice=ToolChoice("required"),
            reasoning=options,
        )
        done = Projection(asked, **target)
        assert done.request.tool_choice == ToolChoice(expected)  # type: ignore[arg-type]  # a mode


def test_server_tools_are_dropped_beside_functions_where_both_are_refused() -> None:
    search = ServerTool("web_search", "other")
    done = offered(Tool("f"), search, mixed_tools=False)
    assert done.request.tools == (Tool("f"),)
    assert done.lost == {"server_tool_dropped": 1}
    assert len(offered(search, mixed_tools=False).request.tools) == 1


def test_a_choice_is_weakened_while_the_model_reasons() -> None:
    choice = ToolChoice("required")
    target: dict[str, Any] = {"reasoning_choices": frozenset({"auto"}), "weak_choice": "required"}
    asked = request(user("Go"), tools=(Tool("f"),), tool_choice=choice)
    assert Projection(asked, **target).request is asked
    done = Projection(asked, reasons_by_default=True, **target)
    assert done.request.tool_choice == ToolChoice("auto")
    assert done.lost == {"tool_choice_weakened": 1}


def test_a_named_tool_is_the_only_one_where_a_choice_can_name_none() -> None:
    target = {"choices_of_tool": frozenset({"auto", "required"}), "weak_choice": "required"}
    done = offered(Tool("f"), Tool("g"), choice=ToolChoice("named", ("g",)), **target)
    assert done.request.tools == (Tool("g"),)
    assert done.request.tool_choice == ToolChoice("required")
    assert done.lost == {"tool_choice_weakened": 1}


def test_schemas_are_simplified_where_the_target_asks_for_it() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "$schema": "x"}
    asked = request(user("Go"), tools=(Tool("f", input_schema=schema), Tool("g")))
    assert Projection(asked).request is asked
    done = Projection(asked, schema="simple")
    first, second = done.request.tools
    assert isinstance(first, Tool)
    one = {"type": "integer", "enum": [1]}
    assert first.input_schema == {"type": "object", "properties": {"a": one}}
    assert second == Tool("g")
    assert done.lost == {"schema.$schema": 1, "schema.const": 1, "schema.type": 1}
    plain = request(user("Go"), tools=(Tool("f", input_schema={"type": "object"}),))
    assert Projection(plain, schema="simple").request is plain


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_choice_of_a_tool_that_the_request_does_not_have_is_an_error(kind: str) -> None:
    choice = ToolChoice("named", ("g",), kind)
    with pytest.raises(EncodeError, match="a choice of no tool of the request") as caught:
        offered(Tool("f"), choice=choice)
    assert caught.value.path == "tool_choice"
    asked = own(request(user("Go"), tools=(Tool("f"),), tool_choice=choice))
    assert Projection(asked).request is asked
    with pytest.raises(EncodeError, match="a choice of no tool of the request"):
        Projection(asked, checks_choices=True)
    # Its tools are not listed.
    assert offered(Tool("f"), MCPServer("docs", "u"), choice=choice).request.tool_choice == choice


def test_tools_that_the_request_does_not_have_are_left_out_of_a_choice() -> None:
    done = offered(Tool("f"), Tool("h"), choice=ToolChoice("required", ("g", "f")))
    assert done.request.tool_choice == ToolChoice("named", ("f",))
    assert done.lost == {"tool_choice": 1}


def test_server_without_a_url_is_left_to_the_vendor_that_has_it() -> None:
    mail = MCPServer("mail", authorization="tok", extra={"other": {"connector_id": "c"}})
    own = MCPServer("mail", extra={"target": {"connector_id": "c"}})
    done = offered(Tool("f"), mail, mcp_servers=frozenset({"url", "authorization"}))
    assert done.request.tools == (Tool("f"),)
    assert done.losses == (Loss("mcp_server_dropped", "tools", 1, "without a URL"),)
    assert offered(own, mcp_servers=frozenset({"url"})).request.tools == (own,)
