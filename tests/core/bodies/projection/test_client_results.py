"""Results of the client's own at the end of a request: an error where the target lacks them."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import EncodeError, Request, decode_request, encode_request

QUESTION = {"role": "user", "content": "Click."}
ANSWER = {"role": "assistant", "content": "Done."}
CALL = {"call_id": "call_1", "status": "completed"}
IMAGE = {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}
OUTPUT = [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]

ENDS: dict[str, list[dict[str, Any]]] = {
    "computer_call_output": [
        {"type": "computer_call", "id": "cu_1", "action": {"type": "screenshot"}, **CALL},
        {"type": "computer_call_output", "call_id": "call_1", "output": IMAGE},
    ],
    "shell_call_output": [
        {"type": "shell_call", "id": "sh_1", "action": {"commands": ["ls"]}, **CALL},
        {"type": "shell_call_output", "call_id": "call_1", "output": OUTPUT},
    ],
    "apply_patch_call_output": [
        {
            "type": "apply_patch_call",
            "id": "ap_1",
            "operation": {"type": "delete_file", "path": "a"},
            **CALL,
        },
        {"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed"},
    ],
    "local_shell_call_output": [
        {
            "type": "local_shell_call",
            "id": "ls_1",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            **CALL,
        },
        {"type": "local_shell_call_output", "id": "out_1", "output": "a"},
    ],
    "mcp_approval_response": [
        {
            "type": "mcp_approval_request",
            "id": "mcpr_1",
            "name": "ask",
            "server_label": "dice",
            "arguments": "{}",
        },
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ],
}


def asked(*items: dict[str, Any]) -> Request:
    return decode_request({"model": "m", "input": [QUESTION, *items]}, "openai_responses")


@pytest.mark.parametrize("target", ["anthropic", "gemini", "openai_chat", "gemini_interactions"])
@pytest.mark.parametrize(("kind", "items"), ENDS.items(), ids=ENDS)
def test_result_at_the_end_is_refused_where_the_target_lacks_it(
    kind: str, items: list[dict[str, Any]], target: str
) -> None:
    message = f"{kind} at the end, expected a result that {target} has"
    with pytest.raises(EncodeError, match=message) as raised:
        encode_request(asked(*items), target)
    assert raised.value.path.startswith("messages[")
    assert raised.value.path.endswith(f".blocks[{len(asked(*items).messages[-1].blocks) - 1}]")


@pytest.mark.parametrize("items", ENDS.values(), ids=ENDS)
def test_result_before_a_later_answer_is_a_loss(items: list[dict[str, Any]]) -> None:
    encoded = encode_request(asked(*items, ANSWER, QUESTION), "openai_chat")
    assert encoded.body["messages"] == [QUESTION, ANSWER, QUESTION]
    assert "server_history_dropped" in [loss.feature for loss in encoded.losses]


@pytest.mark.parametrize("items", ENDS.values(), ids=ENDS)
def test_result_passes_in_its_own_dialect(items: list[dict[str, Any]]) -> None:
    encoded = encode_request(asked(*items), "openai_responses")
    assert encoded.body["input"] == [QUESTION, *items]


def test_request_without_messages_has_no_result() -> None:
    request = decode_request({"model": "m", "input": []}, "openai_responses")
    with pytest.raises(EncodeError, match="no messages"):
        encode_request(request, "openai_chat")
