"""The clients of Amazon Bedrock: boto3, and Anthropic's SDK for Bedrock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import anthropic
import boto3
import botocore.config
import botocore.exceptions
from acceptance.transcoding_clients import SCHEMA, SDK, Anthropic, Reading
from support.bedrock.signatures import KEY_ID, SECRET

__all__ = ["BEDROCK_SDKS", "Boto3"]

_REGION = "us-east-1"
_KEYS = {"aws_access_key_id": KEY_ID, "aws_secret_access_key": SECRET}


class AnthropicBedrock(Anthropic):
    """Anthropic's SDK for Bedrock, which signs with botocore."""

    def client(self, http: Any) -> Any:
        raise NotImplementedError  # it needs a base URL

    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any:
        return anthropic.AsyncAnthropicBedrock(
            aws_access_key=KEY_ID,
            aws_secret_key=SECRET,
            aws_region=_REGION,
            http_client=http,
            base_url=base_url,
            max_retries=retries,
        )


class _Boto3(SDK):
    """boto3, whose clients are synchronous and have an HTTP client of their own."""

    status_error = botocore.exceptions.ClientError
    stream_error = botocore.exceptions.EventStreamError
    connection_error = botocore.exceptions.ConnectionError

    def __init__(self) -> None:
        self._clients: list[Any] = []

    def client(self, http: Any) -> Any:
        raise NotImplementedError  # it needs a base URL

    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any:
        config = botocore.config.Config(retries={"total_max_attempts": 1 + retries})
        session = boto3.session.Session(region_name=_REGION, **_KEYS)
        client = session.client("bedrock-runtime", endpoint_url=base_url, config=config)
        self._clients.append(client)
        return client

    async def converse_async(self, http: Any, turns: int = 1, **options: Any) -> list[Reading]:
        """Return what is read of each turn; the connections are closed behind it."""
        try:
            return await super().converse_async(http, turns, **options)
        finally:
            for client in self._clients:
                client.close()
            self._clients.clear()

    async def streamed_async(self, client: Any, said: list[Any]) -> Any:
        return await asyncio.to_thread(self.streamed, client, said)

    async def whole_async(self, client: Any, said: list[Any]) -> Any:
        return await asyncio.to_thread(self.whole, client, said)


class Boto3(_Boto3):
    """boto3's `invoke_model` and `invoke_model_with_response_stream`."""

    dialect = "anthropic"

    def first(self, question: str = "Snow?") -> list[Any]:
        return [{"role": "user", "content": question}]

    def _options(self, said: list[Any]) -> dict[str, Any]:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 500,
            "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
            "messages": said,
        }
        return {"modelId": "m-1", "body": json.dumps(body)}

    def streamed(self, client: Any, said: list[Any]) -> Any:
        answer = client.invoke_model_with_response_stream(**self._options(said))
        assert answer["contentType"] == "application/json"
        assert answer["ResponseMetadata"]["RequestId"]
        with closing(answer["body"]) as events:
            return _message_of(json.loads(event["chunk"]["bytes"]) for event in events)

    def whole(self, client: Any, said: list[Any]) -> Any:
        answer = client.invoke_model(**self._options(said))
        assert answer["contentType"] == "application/json"
        return json.loads(answer["body"].read())["content"]

    def reading(self, answer: list[dict[str, Any]]) -> Reading:
        return Reading(
            "".join(block["text"] for block in answer if block["type"] == "text"),
            "".join(block["thinking"] for block in answer if block["type"] == "thinking"),
            tuple((b["id"], b["name"], b["input"]) for b in answer if b["type"] == "tool_use"),
        )

    def go_on(self, said: list[Any], answer: list[dict[str, Any]]) -> None:
        said.append({"role": "assistant", "content": answer})
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "snow"}
            for block in answer
            if block["type"] == "tool_use"
        ]
        said.append({"role": "user", "content": results})


def _message_of(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the content of the message that a stream is, as users of boto3 put it together."""
    blocks: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    last = ""
    for event in events:
        last = event["type"]
        if last == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif last == "content_block_delta":
            delta = {name: text for name, text in event["delta"].items() if name != "type"}
            for name, text in delta.items():
                if name == "partial_json":
                    inputs[event["index"]] = inputs.get(event["index"], "") + text
                else:
                    block = blocks[event["index"]]
                    block[name] = block.get(name, "") + text
    assert last == "message_stop"
    for at, text in inputs.items():
        blocks[at]["input"] = json.loads(text or "{}")
    return blocks


class Boto3Converse(_Boto3):
    """boto3's `converse` and `converse_stream`."""

    dialect = "bedrock_converse"

    def first(self, question: str = "Snow?") -> list[Any]:
        return [{"role": "user", "content": [{"text": question}]}]

    def _options(self, said: list[Any]) -> dict[str, Any]:
        tool = {"name": "get_weather", "inputSchema": {"json": SCHEMA}}
        return {
            "modelId": "m-1",
            "messages": said,
            "inferenceConfig": {"maxTokens": 500},
            "toolConfig": {"tools": [{"toolSpec": tool}]},
        }

    def streamed(self, client: Any, said: list[Any]) -> Any:
        answer = client.converse_stream(**self._options(said))
        assert answer["ResponseMetadata"]["RequestId"]
        with closing(answer["stream"]) as events:
            return _content_of(events)

    def whole(self, client: Any, said: list[Any]) -> Any:
        answer = client.converse(**self._options(said))
        assert answer["usage"]["totalTokens"] >= 0
        assert answer["metrics"]["latencyMs"] >= 0
        return answer["output"]["message"]["content"]

    def reading(self, answer: list[dict[str, Any]]) -> Reading:
        texts = [block["text"] for block in answer if "text" in block]
        thoughts = [block["reasoningContent"] for block in answer if "reasoningContent" in block]
        calls = [block["toolUse"] for block in answer if "toolUse" in block]
        return Reading(
            "".join(texts),
            "".join(each["reasoningText"]["text"] for each in thoughts if "reasoningText" in each),
            tuple((call["toolUseId"], call["name"], call["input"]) for call in calls),
        )

    def go_on(self, said: list[Any], answer: list[dict[str, Any]]) -> None:
        said.append({"role": "assistant", "content": answer})
        ids = [block["toolUse"]["toolUseId"] for block in answer if "toolUse" in block]
        results = [{"toolUseId": id, "content": [{"text": "snow"}]} for id in ids]
        said.append({"role": "user", "content": [{"toolResult": each} for each in results]})


def _content_of(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the content of the message that a stream of Converse is."""
    blocks: dict[int, dict[str, Any]] = {}
    seen: list[str] = []
    for event in events:
        ((kind, fields),) = event.items()
        seen.append(kind)
        if kind == "contentBlockStart":
            blocks[fields["contentBlockIndex"]] = {"toolUse": {**fields["start"]["toolUse"]}}
        elif kind == "contentBlockDelta":
            _add(blocks.setdefault(fields["contentBlockIndex"], {}), fields["delta"])
    assert (seen[0], seen[-2:]) == ("messageStart", ["messageStop", "metadata"])
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"].get("input") or "{}")
    return [block for _, block in sorted(blocks.items())]


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta to a block, whose reasoning nests deeper in a body than in a stream."""
    ((kind, value),) = delta.items()
    if kind == "text":
        block["text"] = block.get("text", "") + value
        return
    holder = block.setdefault(kind, {})
    if kind == "reasoningContent" and "redactedContent" not in value:
        # The text is required, and some reasoning has a signature alone.
        holder = holder.setdefault("reasoningText", {"text": ""})
    for name, text in value.items():
        if isinstance(text, bytes):  # boto3 has blobs decoded
            holder[name] = holder.get(name, b"") + text
            continue
        holder[name] = holder.get(name, "") + text


BEDROCK_SDKS: dict[str, SDK] = {
    "anthropic_bedrock": AnthropicBedrock(),
    "boto3": Boto3(),
    "boto3_converse": Boto3Converse(),
}
