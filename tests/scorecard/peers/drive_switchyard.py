"""Switchyard's server, which is compiled from Rust, in this process on a port of the loopback.

Entry point: `switchyard_rust.server.Server`, with a passthrough route for each upstream: release
0.3.0 has no function that converts a stream.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from importlib.metadata import version

from driver import Answer, Job, path_of, run
from switchyard_rust.server import Server

FORMATS = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic": "anthropic_messages",
}
_TABLES = """
[llm_clients.{name}]
format = "{format}"
base_url = "{upstream}/v1"

[targets.{name}]
id = "{model}"
llm_client = "{name}"

[routes.{name}]
id = "{name}"
type = "passthrough"
target = "{name}"
"""
_servers: dict[str, Server] = {}


def _port(model: str) -> int:
    if model not in _servers:
        tables = "".join(
            _TABLES.format(name=name, format=format, model=model, upstream=sys.argv[1])
            for name, format in FORMATS.items()
        )
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("schema_version = 1\n" + tables)
            file.flush()
            _servers[model] = Server(file.name, 0)
    return _servers[model].port


async def ask(job: Job) -> Answer:
    """Ask the server as a client."""
    port = _port(job.model or "m")
    body = json.dumps({**job.request, "model": job.source}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST {path_of(job.target, job.source)} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        "content-type: application/json\r\nanthropic-version: 2023-06-01\r\n"
        "authorization: Bearer none\r\nx-api-key: none\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.read(-1)
    writer.close()
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head_bytes.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head_bytes.lower():
        rest = _dechunk(rest)
    return status, rest


def _dechunk(body: bytes) -> bytes:
    parts, at = [], 0
    while (end := body.find(b"\r\n", at)) > 0 and (size := int(body[at:end], 16)):
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(parts)


if __name__ == "__main__":
    pairs = [(source, target) for source in FORMATS for target in FORMATS if source != target]
    run(version("nemo-switchyard"), pairs, ask)
