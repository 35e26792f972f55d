"""Conversations of many clients with a gateway whose workers are killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from support.gateway.processes import gateway_process
from support.gateway.servers import served
from support.http.asgi_client import Message
from support.openai_chat.chunks import DONE, chunk

__all__ = ["Report", "converse"]

_TURNS = 4
_KILLED_TURN = 2
_AT_A_TIME = 32
_MAX_TRIES = 200
_PAUSE_S = 0.05
_FIELDS = {"object": "chat.completion.chunk", "created": 1}


class Report(Struct):
    """Outcome of the conversations.

    Attributes:
        answers: Answers that clients read to their end.
        repeated: Requests that were sent again, because the worker was gone.
        refused: Those sent again because the store did not answer, as it was locked too long.
        killed: Workers that were killed in the middle of an answer.
        wrong: What must not be: a history that is not that of its conversation, an answer that
            is not stored, or one that another client reads.
    """

    answers: int = 0
    repeated: int = 0
    refused: int = 0
    killed: int = 0
    wrong: list[str] = []


async def converse(
    directory: Path, state: str, *, conversations: int, kills: int, workers: int = 4
) -> Report:
    """Run conversations through a gateway; return their outcome.

    Args:
        directory: Where to write the configuration.
        state: The store of the gateway.
        conversations: Their number; each two have one key.
        kills: In how many of them a worker is killed in the middle of an answer.
        workers: Workers of the gateway.
    """
    report = Report()
    killed = range(0, conversations, max(1, conversations // kills))[:kills] if kills else range(0)
    upstream = _Upstream(report, {*killed})
    arguments = ("uvicorn", "--factory", "APP", "--port", "PORT", "--workers", str(workers))
    # The upstream may close an idle connection in the moment in which it is used.
    settings = f"state = {json.dumps(state)}\nretries = 3"
    async with (
        served(upstream) as url,
        gateway_process(url, directory, arguments, settings=settings) as gateway,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
    ):
        upstream.gateway = gateway.process.pid
        turns = asyncio.Semaphore(_AT_A_TIME)

        async def hold(number: int) -> None:
            async with turns:
                await _Conversation(gateway.url, http, report, number, conversations).hold()

        await asyncio.gather(*(hold(number) for number in range(conversations)))
    return report


class _Conversation:
    """One client's conversation.

    Args:
        url: URL of the gateway.
        http: The connections, each for one request: any worker may answer it.
        report: What becomes of it.
        number: Its number.
        count: The number of conversations.
    """

    def __init__(
        self, url: str, http: aiohttp.ClientSession, report: Report, number: int, count: int
    ) -> None:
        self._url = f"{url}/v1/responses"
        self._http = http
        self._report = report
        self._number = number
        keys = max(2, count // 2)
        self._key, self._other_key = f"key-{number % keys}", f"key-{(number + 1) % keys}"

    async def hold(self) -> None:
        """Send all turns, then check that only this client can read the answers."""
        previous: str | None = None
        for turn in range(1, _TURNS + 1):
            body = {"model": "m", "input": _said(self._number, turn)}
            body |= {} if previous is None else {"previous_response_id": previous}
            body["stream"] = (self._number + turn) % 2 == 0
            response = await self._ask(body)
            self._report.answers += 1
            text = response["output"][0]["content"][0]["text"]
            if text != _answer_to(_said(self._number, turn)):
                self._wrong(f"turn {turn} is answered with {text!r}")
            previous = response["id"]
        path = f"/{previous}"
        stored = await self._send("GET", path, self._key)
        if stored.get("output") != response["output"]:
            self._wrong("the last answer is not stored")
        body = {"model": "m", "input": "Hi.", "previous_response_id": previous}
        for found in (
            await self._send("GET", path, self._other_key),
            await self._send("POST", "", self._other_key, body),
        ):
            if "not found" not in found.get("error", {}).get("message", ""):
                self._wrong("another client reads it")

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        response = await self._send("POST", "", self._key, body)
        if response.get("status") != "completed":
            self._wrong(f"the answer is {json.dumps(response)[:200]}")
            raise AssertionError(self._report.wrong)
        return response

    async def _send(
        self, method: str, path: str, key: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request, with retries while its worker is gone; return the answer."""
        headers = {"authorization": f"Bearer {key}"}
        for _ in range(_MAX_TRIES):
            try:
                async with self._http.request(
                    method, self._url + path, json=body, headers=headers
                ) as answer:
                    data = await answer.read()
            except aiohttp.ClientError:
                self._report.repeated += 1
                await asyncio.sleep(_PAUSE_S)
                continue
            if answer.status == 503:
                self._report.refused += 1
                await asyncio.sleep(_PAUSE_S)
                continue
            if not answer.content_type.endswith("event-stream"):
                found: dict[str, Any] = json.loads(data)
                return found
            last = json.loads(data.rstrip().rpartition(b"data: ")[2])
            if last["type"] == "response.completed":
                response: dict[str, Any] = last["response"]
                return response
            self._report.refused += 1  # an error in place of the end
        raise AssertionError("no worker answers")

    def _wrong(self, text: str) -> None:
        self._report.wrong.append(f"conversation {self._number}: {text}")


class _Upstream:
    """A Chat Completions upstream that checks its requests' histories.

    Args:
        report: What was sent in another way.
        killed: Conversations in which it kills the worker that asks it, once.

    Attributes:
        gateway: Process of the gateway, of which the workers are children.
    """

    def __init__(self, report: Report, killed: set[int]) -> None:
        self.gateway = 0
        self._report = report
        self._killed = killed

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for name in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{name}.complete"})
            return
        data, message = b"", Message()
        while not data or message.get("more_body"):
            message = await receive()
            data += message.get("body", b"")
        body = json.loads(data)
        said = body["messages"][-1]["content"]
        number, turn = map(int, re.fullmatch(r"conversation (\d+), turn (\d+)", said).groups())  # type: ignore[union-attr]  # any other text is an error
        expected = [
            text
            for each in range(1, turn)
            for text in (_said(number, each), _answer_to(_said(number, each)))
        ]
        if [each["content"] for each in body["messages"]] != [*expected, said]:
            self._report.wrong.append(f"conversation {number}: turn {turn} with another history")
        kills = turn == _KILLED_TURN and number in self._killed
        words = [f"{word} " for word in _answer_to(said).split(" ")]
        words[-1] = words[-1].rstrip()
        if body.get("stream"):
            kind = b"text/event-stream"
            pieces = [chunk({"role": "assistant", "content": ""}, **_FIELDS)]
            pieces += [chunk({"content": word}, **_FIELDS) for word in words]
            pieces += [chunk({}, "stop", **_FIELDS), DONE]
        else:
            kind = b"application/json"
            answer = {"role": "assistant", "content": "".join(words)}
            choice = {"index": 0, "message": answer, "finish_reason": "stop"}
            whole = {"id": "c", "object": "chat.completion", "created": 1, "choices": [choice]}
            text = json.dumps(whole).encode()
            pieces = [text[:20], text[20:]]
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for place, piece in enumerate(pieces):
            if kills and place == len(pieces) // 2 and _kill(self.gateway, scope["client"][1]):
                self._killed.discard(number)  # unless it was gone with another answer
                self._report.killed += 1
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})


def _said(number: int, turn: int) -> str:
    return f"conversation {number}, turn {turn}"


def _answer_to(said: str) -> str:
    return f"The answer to {said}"


def _kill(parent: int, port: int) -> bool:
    """Kill the child process that serves a connection from a port."""
    address = f"{socket.htonl(0x7F000001):08X}:{port:04X}"
    connections = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    inodes = [fields[9] for fields in connections if fields[1] == address]
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        for descriptor in Path(f"/proc/{child}/fd").glob("*"):
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if any(target == f"socket:[{inode}]" for inode in inodes):
                os.kill(int(child), signal.SIGKILL)
                return True
    return False
