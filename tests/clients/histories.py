"""The tools, calls, results and signatures in a request, as each vendor's reference writes them.

Independent of the package's own readers: these judge what its writers send.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["History", "history_of"]


_REPEATED = "_2"

Signature: TypeAlias = tuple[str, str | None]


class History(NamedTuple):
    """What a request holds.

    Attributes:
        tools: Kinds of the declared tools, `function` or another, by name; a name within a
            namespace is written behind it and a dot.
        calls: Ids of the tool calls, in order; where there is no id, its number.
        results: Results by the id of their call.
        signatures: Opaque proofs of reasoning, each with the id of the item that has it, if it
            is an item with one.
    """

    tools: dict[str, str]
    calls: tuple[str, ...]
    results: dict[str, str]
    signatures: tuple[Signature, ...]

    def without_repeated_calls(self) -> History:
        """Return the history with calls that were repeated, and renamed, as one.

        opencode executes the calls of an answer that then breaks off, and asks for it again:
        the script gives its calls the same ids, which the gateway tells apart.
        """
        calls = tuple(dict.fromkeys(id.removesuffix(_REPEATED) for id in self.calls))
        results = {id.removesuffix(_REPEATED): text for id, text in self.results.items()}
        return self._replace(calls=calls, results=results)

    def with_ids(self, ids: Sequence[str]) -> History:
        """Return the history with other ids for its calls, in their order."""
        renamed = dict(zip(dict.fromkeys(self.calls), ids, strict=False))
        calls = tuple(renamed.get(id, id) for id in self.calls)
        results = {renamed.get(id, id): text for id, text in self.results.items()}
        return self._replace(calls=calls, results=results)


def history_of(dialect: str, body: dict[str, Any]) -> History:
    """Return what a request of a dialect holds."""
    tools, calls, results, signatures = _READERS[dialect](body)
    return History(tools, tuple(calls), results, tuple(signatures))


_Found = tuple[dict[str, str], list[str], dict[str, str], list[Signature]]


def _text(content: Any) -> str:
    """Return the text of a string, or of a list of parts with one."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return json.dumps(content, ensure_ascii=False)


def _anthropic(body: dict[str, Any]) -> _Found:
    calls, results, signatures = [], {}, []
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            match block["type"]:
                case "tool_use":
                    calls.append(block["id"])
                case "tool_result":
                    results[block["tool_use_id"]] = _text(block.get("content", ""))
                case "thinking":
                    signatures.append((block["signature"], None))
                case _:
                    pass
    tools = {tool["name"]: tool.get("type", "function") for tool in body.get("tools", ())}
    return tools, calls, results, signatures


def _chat(body: dict[str, Any]) -> _Found:
    calls, results = [], {}
    for message in body["messages"]:
        calls += [call["id"] for call in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            results[message["tool_call_id"]] = _text(message["content"])
    tools = {tool[tool["type"]]["name"]: tool["type"] for tool in body.get("tools", ())}
    return tools, calls, results, []


def _responses_tools(declared: Any) -> dict[str, str]:
    tools = {}
    for tool in declared:
        if tool["type"] == "namespace":
            inner = _responses_tools(tool["tools"])
            tools |= {f"{tool['name']}.{name}": kind for name, kind in inner.items()}
        else:
            tools[tool.get("name", tool["type"])] = tool["type"]
    return tools


def _responses(body: dict[str, Any]) -> _Found:
    tools = _responses_tools(body.get("tools", ()))
    calls, results, signatures = [], {}, []
    for item in body["input"] if isinstance(body["input"], list) else []:
        match item.get("type"):
            case "additional_tools":
                tools |= _responses_tools(item["tools"])
            case "function_call" | "custom_tool_call":
                calls.append(item["call_id"])
            case "function_call_output" | "custom_tool_call_output":
                results[item["call_id"]] = _text(item["output"])
            case "reasoning" if item.get("encrypted_content"):
                signatures.append((item["encrypted_content"], item.get("id")))
            case _:
                pass
    return tools, calls, results, signatures


def _gemini(body: dict[str, Any]) -> _Found:
    calls, results, signatures = [], {}, []
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionCall" in part:
                calls.append(part["functionCall"].get("id") or f"call {len(calls)}")
            if "functionResponse" in part:
                answer = part["functionResponse"]
                results[answer.get("id") or f"call {len(results)}"] = _text(answer["response"])
            if "thoughtSignature" in part:
                signatures.append((part["thoughtSignature"], None))
    tools = {
        declared["name"]: "function"
        for tool in body.get("tools", ())
        for declared in tool.get("functionDeclarations", ())
    }
    return tools, calls, results, signatures


def _converse(body: dict[str, Any]) -> _Found:
    calls, results, signatures = [], {}, []
    for message in body["messages"]:
        for block in message["content"]:
            match block:
                case {"toolUse": call}:
                    calls.append(call["toolUseId"])
                case {"toolResult": result}:
                    parts = [part.get("json") or part.get("text", "") for part in result["content"]]
                    results[result["toolUseId"]] = "".join(map(_text, parts))
                case {"reasoningContent": {"reasoningText": thought}}:
                    signatures.append((thought["signature"], None))
                case _:
                    pass
    declared = body.get("toolConfig", {}).get("tools", ())
    tools = {tool["toolSpec"]["name"]: "function" for tool in declared if "toolSpec" in tool}
    return tools, calls, results, signatures


_READERS = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
    "bedrock_converse": _converse,
}
