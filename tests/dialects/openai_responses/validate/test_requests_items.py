"""What OpenAI refuses in the history of a request of Responses, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.rules import (
    ANSWER,
    CALL,
    CUSTOM_CALL,
    CUSTOM_RESULT,
    REASONING,
    RESULT,
    TOOLS,
    USER,
    Case,
    items,
)

from streamnorm.validation import validate_request

MESSAGE = {"type": "message", "role": "assistant", "content": "Hm."}
REFERENCE = {"type": "item_reference", "id": "fc_1"}
GROUP = {"type": "namespace", "name": "n", "description": "", "tools": TOOLS}
SEARCH = {"type": "tool_search", "execution": "client", "parameters": {}}
SERVERS = ("azure", "chatgpt", "copilot", "githubcopilot")


def prefix(rule: str, item: dict[str, Any], *after: dict[str, Any], begins: str) -> Case:
    """Return the case of an id that begins otherwise."""
    return Case(
        f"openai_responses.{rule}",
        items({**item, "id": "item_1"}, *after),
        "input[1].id",
        f"Invalid 'input[1].id': 'item_1'. Expected an ID that begins with '{begins}'.",
        items({**item, "id": f"{begins}_1"}, *after),
        free="copilot",
    )


def too_long(rule: str, refused: dict[str, Any], path: str, accepted: dict[str, Any]) -> Case:
    return Case(
        f"openai_responses.{rule}",
        refused,
        path,
        f"Invalid '{path}': string too long. Expected a string with maximum length 64, but got a"
        " string with length 65 instead.",
        accepted,
        free="copilot",
        code="string_above_max_length",
    )


def unverified(id: str, encrypted: str, server: str | None = None) -> Case:
    """Return the case of encrypted reasoning that was not issued so."""
    return Case(
        "openai_responses.encrypted_content",
        items({**REASONING, "id": id, "encrypted_content": encrypted}, ANSWER),
        "input[1]",
        f"The encrypted content for item {id} could not be verified. Reason: Encrypted content"
        " item_id did not match the target item id.",
        items(REASONING, ANSWER),
        server,
        code="invalid_encrypted_content",
    )


def alone(path: str, *after: dict[str, Any], accepted: dict[str, Any]) -> Case:
    """Return the case of reasoning that nothing of its answer follows."""
    return Case(
        "openai_responses.reasoning_alone",
        items(*after),
        path,
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        accepted,
        code=None,
    )


def no_call(refused: dict[str, Any], path: str, accepted: dict[str, Any]) -> Case:
    return Case(
        "openai_responses.result_of_no_call",
        refused,
        path,
        "No tool call found for function call output with call_id call_1.",
        accepted,
        code=None,
    )


def no_result(*values: dict[str, Any], accepted: dict[str, Any]) -> Case:
    return Case(
        "openai_responses.call_without_result",
        items(*values),
        "input[1]",
        "No tool output found for function call call_1.",
        accepted,
        code=None,
    )


def not_chosen(name: str, choice: dict[str, Any], *tools: dict[str, Any], **more: Any) -> Case:
    path = more.pop("path", "tool_choice")
    return Case(
        "openai_responses.chosen_tool",
        {"tools": [*tools], "tool_choice": choice},
        path,
        f"Tool choice '{name}' not found in 'tools' parameter.",
        {"tool_choice": more.pop("legal", "auto")},
        code=None,
        **more,
    )


CASES = [
    # Ids
    prefix("call_item_id", CALL, RESULT, begins="fc"),
    prefix("custom_call_item_id", CUSTOM_CALL, CUSTOM_RESULT, begins="ctc"),
    prefix("reasoning_id", REASONING, ANSWER, begins="rs"),
    prefix("message_id", MESSAGE, begins="msg"),
    too_long(
        "id_length",
        items({**MESSAGE, "id": "msg_" + "a" * 61}),
        "input[1].id",
        items({**MESSAGE, "id": "msg_" + "a" * 60}),
    ),
    Case(
        "openai_responses.id_characters",
        items({**MESSAGE, "id": "msg_a.b"}),
        "input[1].id",
        "Invalid 'input[1].id': 'msg_a.b'. Expected an ID that contains letters, numbers,"
        " underscores, or dashes, but this value contained additional characters.",
        items({**MESSAGE, "id": "msg_a-b_1"}),
        free="copilot",
    ),
    too_long(
        "call_id_length",
        items({**CALL, "call_id": "c" * 65}, {**RESULT, "call_id": "c" * 64}),
        "input[1].call_id",
        items({**CALL, "call_id": "c" * 64}, {**RESULT, "call_id": "c" * 64}),
    ),
    *(
        Case(
            "openai_responses.duplicate_call",
            items(first, after, second, last),
            "input[3].call_id",
            "Invalid 'input[3].call_id': the id of another call.",
            items(first, after, {**second, "call_id": "b"}, {**last, "call_id": "b"}),
            code=None,
        )
        for first, after, second, last in [
            (CALL, RESULT, CALL, RESULT),
            (CUSTOM_CALL, CUSTOM_RESULT, CUSTOM_CALL, CUSTOM_RESULT),
        ]
    ),
    # Calls and results
    no_call(items(RESULT), "input[1].call_id", items(CALL, RESULT)),
    no_call(items(CUSTOM_CALL, RESULT), "input[2].call_id", items(CUSTOM_CALL, CUSTOM_RESULT)),
    no_call(items(RESULT, CALL), "input[1].call_id", items(CALL, USER, RESULT)),
    no_call(items(RESULT), "input[1].call_id", {**items(RESULT), "previous_response_id": "resp_1"}),
    no_call(items(RESULT), "input[1].call_id", items(REFERENCE, RESULT)),
    no_call(items(RESULT), "input[1].call_id", items({"id": "fc_1"}, RESULT)),
    no_result(CALL, accepted=items(CALL, RESULT)),
    no_result(CALL, USER, accepted=items({**CALL, "async": True}, USER)),
    no_result(CUSTOM_CALL, accepted={**items(CUSTOM_CALL), "conversation": "conv_1"}),
    Case(
        "openai_responses.namespace",
        {**items(CALL, RESULT), "tools": [GROUP]},
        "input[1].namespace",
        "The tool 'f' is in a namespace, which its call does not name.",
        items({**CALL, "namespace": "n"}, RESULT),
        code=None,
    ),
    not_chosen(
        "web_search_preview",
        {"type": "web_search_preview"},
        *TOOLS,
        legal={"type": "function", "name": "f"},
    ),
    not_chosen(
        "web_search_preview",
        {"type": "web_search_preview"},
        {"type": "web_search"},
        legal={"type": "web_search"},
        server="chatgpt",
        free="/gpt-4.1",
    )._replace(
        accepted={
            "tool_choice": {"type": "web_search"},
            "store": False,
            "stream": True,
        }
    ),
    not_chosen(
        "code_interpreter",
        {"type": "code_interpreter"},
        {"type": "web_search"},
        legal={"type": "web_search_preview"},
    ),
    not_chosen(
        "g", {"type": "function", "name": "g"}, GROUP, legal={"type": "function", "name": "f"}
    ),
    not_chosen("f", {"type": "custom", "name": "f"}, *TOOLS),
    not_chosen(
        "docs",
        {"type": "mcp", "server_label": "docs"},
        {"type": "mcp", "server_label": "wiki", "server_url": "https://w"},
        legal={"type": "mcp", "server_label": "wiki"},
    ),
    not_chosen(
        "g",
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}],
        },
        *TOOLS,
        path="tool_choice.tools[1]",
    ),
    Case(
        "openai_responses.client_tool_search",
        {"tools": [SEARCH]},
        "tools[0].description",
        "Missing required parameter: 'tools[0].description'.",
        {"tools": [{**SEARCH, "description": "Finds tools."}, {"type": "tool_search"}]},
        code="missing_required_parameter",
    ),
    Case(
        "openai_responses.state",
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        "previous_response_id",
        "'previous_response_id' cannot be used in conjunction with 'conversation'.",
        {"conversation": None},
        code=None,
    ),
    # Reasoning
    unverified("rs_1", "sn1.anthropic.EqQB"),
    unverified("rs_1", "sn1-id.openai.rs_2.gAAA"),
    unverified("rs_1", "sn1-redacted.anthropic.EqQB"),
    unverified("rs_sn_0a1b", "gAAA"),
    *(
        unverified("rs_1", "sn1.anthropic.EqQB", server)._replace(
            accepted={"store": False, "stream": True, **items(REASONING, ANSWER)}
        )
        for server in SERVERS
    ),
    alone("input[1]", REASONING, accepted=items(REASONING, ANSWER)),
    alone("input[1]", REASONING, USER, accepted=items(REASONING, ANSWER, USER)),
    alone("input[1]", REASONING, RESULT, CALL, accepted=items(REASONING, CALL, RESULT)),
    alone(
        "input[1]",
        REASONING,
        {"type": "configuration_update", "reasoning": {}},
        accepted=items(REASONING, {"type": "web_search_call", "id": "ws_1", "status": "completed"}),
    ),
    alone(
        "input[2]",
        ANSWER,
        REASONING,
        accepted=items({**REASONING, "id": "rs_2"}, REASONING, CALL, RESULT),
    ),
    alone("input[1]", REASONING, accepted=items(REASONING, REFERENCE)),
    alone("input[1]", REASONING, accepted=items(REASONING, {"id": "msg_1"})),
    Case(
        "openai_responses.reasoning_not_stored",
        {**items({**REASONING, "encrypted_content": None}, ANSWER), "store": False},
        "input[1]",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try"
        " again with `store` set to true, or remove this item from your input.",
        {"store": None},
        status=404,
        code=None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_as_the_vendor_refuses_it(case: Case) -> None:
    case.check()


def test_each_reasoning_item_that_nothing_follows_is_refused() -> None:
    body = {"model": "gpt-5", **items(REASONING, {**REASONING, "id": "rs_2"}, USER)}
    found = validate_request(body, "openai_responses")
    assert [(each.rule, each.path) for each in found] == [
        ("openai_responses.reasoning_alone", "input[1]"),
        ("openai_responses.reasoning_alone", "input[2]"),
    ]


def test_reasoning_without_an_id_is_refused_for_what_it_says_alone() -> None:
    """Where the id is unknown, none is sent; encrypted content is then the provider's to open."""
    item = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    body = {"model": "gpt-5", **items(item, ANSWER), "store": False}
    assert validate_request(body, "openai_responses") == []
    del item["encrypted_content"]
    assert validate_request(body, "openai_responses") == []


def test_call_of_a_tool_that_is_offered_in_both_forms_needs_no_namespace() -> None:
    body = {"model": "gpt-5", **items(CALL, RESULT), "tools": [GROUP, *TOOLS]}
    assert validate_request(body, "openai_responses") == []


def test_chosen_tool_may_be_one_that_an_item_adds() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": TOOLS}
    choice = {"type": "function", "name": "f"}
    body = {"model": "gpt-5", **items(added), "tool_choice": choice}
    assert validate_request(body, "openai_responses") == []
