"""llm-rosetta's gateway, called as its own server calls it, without a socket before it.

Entry point: `llm_rosetta.gateway.app.create_app`, with a provider for each upstream.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.metadata import version
from typing import Any

from driver import Answer, Job, path_of, run
from llm_rosetta._vendor.httpserver import Request
from llm_rosetta.gateway.app import GatewayExtensions, create_app
from llm_rosetta.gateway.config import GatewayConfig

UPSTREAM = sys.argv[1]
PROVIDERS = {
    "openai_chat": ("openai", f"{UPSTREAM}/v1"),
    "openai_responses": ("openai_responses", f"{UPSTREAM}/v1"),
    "anthropic": ("anthropic", UPSTREAM),
    "gemini": ("google", UPSTREAM),
    "gemini_interactions": ("google_interactions", UPSTREAM),
}
TARGETS = ("openai_chat", "openai_responses", "anthropic", "gemini")
_apps: dict[str | None, Any] = {}


def _app(model: str | None) -> Any:
    """Return the gateway whose upstreams have a model; their names are those of the dialects."""
    if model not in _apps:
        # Its key store is a file in the working directory.
        os.chdir(tempfile.mkdtemp())
        providers = {
            name: {"type": shim, "base_url": url, "api_key": "none"}
            for name, (shim, url) in PROVIDERS.items()
        }
        server = {"open_on_no_keys": True, "error_dumps": False}
        models = {
            name: {"provider": name, **({} if model is None else {"upstream_model": model})}
            for name in PROVIDERS
        }
        config = GatewayConfig({"providers": providers, "models": models, "server": server})
        _apps[model] = create_app(config, None, GatewayExtensions(skip_admin_setup=True))
    return _apps[model]


async def ask(job: Job) -> Answer:
    """Ask the gateway as a client."""
    body = json.dumps({**job.request, "model": job.source}).encode()
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    path, client, app = path_of(job.target, job.source), ("127.0.0.1", 1), _app(job.model)
    response = await app._dispatch(Request("POST", path, "", headers, body, client, app))
    if not hasattr(response, "_generator"):
        return response.status_code, response.body
    parts: list[bytes] = []
    try:
        # Not a list comprehension: what came before an exception was sent.
        async for text in response._generator:
            parts += [text.encode()]
    except Exception:
        # Its server closes the connection behind what was sent.
        if not parts:
            raise
    return response.status_code, b"".join(parts)


if __name__ == "__main__":
    pairs = [(source, target) for source in PROVIDERS for target in TARGETS if source != target]
    run(version("llm-rosetta"), pairs, ask)
