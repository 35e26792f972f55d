"""Rules of each API on the order of calls and results, for checks of encoded bodies."""

from __future__ import annotations

from typing import Any

__all__ = ["PROMPTS", "broken_rules"]

PROMPTS = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "bedrock_converse": "messages",
    "gemini_interactions": "input",
}
"""The field of a body that has the conversation."""


def broken_rules(dialect: str, body: dict[str, Any]) -> list[str]:
    """Return the rules on calls and results that a body breaks."""
    return _RULES[dialect](body[PROMPTS[dialect]])


def _anthropic(messages: list[dict[str, Any]]) -> list[str]:
    """Return where a message does not answer all `tool_use` of the previous one, results first."""
    broken: list[str] = []
    called: list[str] = []
    for number, message in enumerate(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if sorted(results) != sorted(called):
            broken.append(f"messages[{number}] answers {results}, expected {called}")
        kinds = [block["type"] == "tool_result" for block in content]
        if kinds != sorted(kinds, reverse=True):
            broken.append(f"messages[{number}] has content before a result")
        called = [block["id"] for block in content if block["type"] == "tool_use"]
        if len(set(called)) < len(called):
            broken.append(f"messages[{number}] has two calls of one id")
    return broken + [f"{id} has no result" for id in called]


def _chat(messages: list[dict[str, Any]]) -> list[str]:
    """Return where calls are not directly followed by one `tool` message each."""
    broken: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                broken.append(f"messages[{number}] answers no call before it")
        else:
            broken += [f"{id} has no result before messages[{number}]" for id in waiting]
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    return broken + [f"{id} has no result" for id in waiting]


def _responses(items: list[dict[str, Any]]) -> list[str]:
    """Return the calls without one later output, and the outputs without an earlier call."""
    broken: list[str] = []
    waiting: list[str] = []
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            waiting.append(item["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if item["call_id"] in waiting:
                waiting.remove(item["call_id"])
            else:
                broken.append(f"input[{number}] answers no call before it")
        elif item.get("role") == "user":
            broken += [f"{id} has no output before input[{number}]" for id in waiting]
    return broken + [f"{id} has no output" for id in waiting]


def _gemini(contents: list[dict[str, Any]]) -> list[str]:
    """Return where a content does not have as many responses as the previous one has calls."""
    broken: list[str] = []
    called = 0
    last = ""
    for number, content in enumerate(contents):
        answers = sum("functionResponse" in part for part in content["parts"])
        if answers != called:
            broken.append(f"contents[{number}] has {answers} responses, expected {called}")
        if answers and answers != len(content["parts"]):
            broken.append(f"contents[{number}] has other parts beside responses")
        called = sum("functionCall" in part for part in content["parts"])
        if called and last != "user":
            broken.append(f"contents[{number}] calls after a content of the {last or 'model'}")
        last = content["role"]
    return [*broken, *(["the last calls have no responses"] if called else [])]


def _converse(messages: list[dict[str, Any]]) -> list[str]:
    """Return where a message does not answer all client calls, or repeats a role."""
    broken: list[str] = []
    called: list[str] = []
    last = ""
    for number, message in enumerate(messages):
        blocks = message["content"]
        # Those of the server's tools stand in the assistant's message.
        is_client = message["role"] == "user"
        results = [block["toolResult"] for block in blocks if "toolResult" in block and is_client]
        answers = sorted(result["toolUseId"] for result in results)
        if answers != sorted(called):
            broken.append(f"messages[{number}] answers {answers}, expected {called}")
        if message["role"] == last:
            broken.append(f"messages[{number}] is of the {last}, as is the one before")
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        called = [call["toolUseId"] for call in calls if call.get("type") != "server_tool_use"]
        last = message["role"]
    return broken + [f"{id} has no result" for id in called]


def _interactions(steps: list[dict[str, Any]]) -> list[str]:
    """Return the calls without exactly one result before the next user step."""
    broken: list[str] = []
    waiting: list[str] = []
    for number, step in enumerate(steps):
        if step["type"] == "function_call":
            waiting.append(step["id"])
        elif step["type"] == "function_result":
            if step["call_id"] in waiting:
                waiting.remove(step["call_id"])
            else:
                broken.append(f"input[{number}] answers no call before it")
        elif step["type"] == "user_input":
            broken += [f"{id} has no result before input[{number}]" for id in waiting]
    return broken + [f"{id} has no result" for id in waiting]


_RULES = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
    "bedrock_converse": _converse,
    "gemini_interactions": _interactions,
}
