"""What other servers than OpenAI's refuse in requests of Responses, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.rules import ANSWER, CALL, RESULT, Case, items

SAID = {"type": "output_text", "text": "a", "annotations": []}
WHOLE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [SAID],
}
CHATGPT = {"store": False, "stream": True}


def without(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != name}


def incomplete(server: str, item: dict[str, Any], path: str, accepted: dict[str, Any]) -> Case:
    """Return the case of a message of the assistant that lacks a field."""
    name = path.rpartition(".")[2]
    is_azure = server == "azure"
    said = f"Required property '{name}' is missing ({path})"
    return Case(
        "azure.annotations" if is_azure else "vllm.annotations",
        items(item),
        path,
        said if is_azure else f"1 validation error: {path}: Field required",
        items(accepted),
        server,
        free="copilot",
        code=None,
    )


def chatgpt(rule: str, refused: dict[str, Any], path: str, says: str, **accepted: Any) -> Case:
    more = {**CHATGPT, **accepted}
    return Case(f"chatgpt.{rule}", {**CHATGPT, **refused}, path, says, more, "chatgpt", code=None)


CASES = [
    *(
        case
        for server in ("azure", "vllm", "sglang")
        for case in (
            incomplete(
                server,
                {**WHOLE, "content": [without(SAID, "annotations")]},
                "input[1].content[0].annotations",
                WHOLE,
            ),
            incomplete(server, without(WHOLE, "id"), "input[1].id", ANSWER),
            incomplete(server, without(WHOLE, "status"), "input[1].status", WHOLE),
        )
    ),
    chatgpt(
        "system_messages",
        items({"role": "system", "content": "Be brief."}),
        "input[1].role",
        "System messages are not allowed",
        **items({"role": "developer", "content": "Be brief."}),
    ),
    chatgpt("store", {"store": True}, "store", "Store must be set to false"),
    chatgpt("store", {"store": None}, "store", "Store must be set to false"),
    chatgpt("stream", {"stream": False}, "stream", "Stream must be set to true"),
    chatgpt(
        "max_output_tokens",
        {"max_output_tokens": 100},
        "max_output_tokens",
        "Unsupported parameter: max_output_tokens",
        max_output_tokens=None,
    ),
    *(
        Case(
            "copilot.item_ids",
            items({**WHOLE, "id": "msg_sn_0_0"}),
            "input[1].id",
            "input item ID does not belong to this connection",
            items({**WHOLE, "id": "PSv0Sr+=="}),
            server,
            "gpt-5.1-codex",
            free="/gpt-5.1-codex",
            status=401,
            code=None,
        )
        for server in ("copilot", "githubcopilot")
    ),
    *(
        Case(
            "vllm.status",
            items({**CALL, "status": "completed"}, RESULT),
            "input[1].status",
            "Extra inputs are not permitted: input[1].status",
            items(CALL, RESULT),
            server,
            "qwen3-32b",
            free="azure",
            code=None,
        )
        for server in ("vllm", "sglang")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_as_the_server_refuses_it(case: Case) -> None:
    case.check()
