"""LiteLLM's proxy, called as an ASGI app without a server before it.

Entry point: `litellm.proxy.proxy_server.app`, with a model for each upstream.  `drop_params` lets
it drop what an upstream does not know, and keep-alive comments are off as they are by default.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.metadata import version
from typing import Any

from driver import Answer, Job, ask_asgi, path_of, run

# LiteLLM downloads its price list unless told otherwise, and does not start without a key.
os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOG": "ERROR",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_REGION_NAME": "us-east-1",
}

UPSTREAM = sys.argv[1]
MODELS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "model": "hosted_vllm/gpt-oss-120b",
        "api_base": f"{UPSTREAM}/v1",
        # Without it a client of Responses is passed to the upstream's Responses.
        "use_chat_completions_api": True,
    },
    "anthropic": {"model": "anthropic/claude-sonnet-4-5", "api_base": UPSTREAM},
    "openai_responses": {"model": "openai/responses/gpt-5.1", "api_base": f"{UPSTREAM}/v1"},
    "gemini": {"model": "gemini/gemini-2.5-flash", "api_base": f"{UPSTREAM}/v1beta"},
    "bedrock_converse": {
        "model": "bedrock/converse/anthropic.claude-sonnet-4-5-20250929-v1:0",
        "aws_bedrock_runtime_endpoint": UPSTREAM,
    },
    "bedrock_invoke": {
        "model": "bedrock/invoke/anthropic.claude-sonnet-4-5-20250929-v1:0",
        "aws_bedrock_runtime_endpoint": UPSTREAM,
    },
}
# Any model of a vendor, whose name says what LiteLLM takes it for.
PREFIXES = {
    "openai_chat": "openai",
    "anthropic": "anthropic",
    "openai_responses": "openai/responses",
    "gemini": "gemini",
    "bedrock_converse": "bedrock/converse",
}
VENDORS = {
    f"{name}/*": {**MODELS[name], "model": f"{prefix}/*"} for name, prefix in PREFIXES.items()
}
TARGETS = ("openai_chat", "anthropic", "openai_responses", "gemini")
_started: list[Any] = []


async def _app() -> Any:
    if not _started:
        from litellm.proxy import proxy_server

        config = {
            "model_list": [
                {"model_name": name, "litellm_params": {"api_key": "none", **parameters}}
                for name, parameters in (MODELS | VENDORS).items()
            ],
            # A second attempt would hide the fault of the first.
            "litellm_settings": {"drop_params": True, "num_retries": 0},
            "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        }
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(config, file)
            file.flush()
            await proxy_server.initialize(config=file.name)
        _started.append(proxy_server.app)
    return _started[0]


async def ask(job: Job) -> Answer:
    """Ask the proxy as a client."""
    import litellm

    # Without it a client of Anthropic is passed to OpenAI's Responses, whatever is converted.
    chat_of_vendor = job.source == "openai_chat" and job.model is not None
    litellm.use_chat_completions_url_for_anthropic_messages = chat_of_vendor
    model = job.source if job.model is None else f"{job.source}/{job.model}"
    return await ask_asgi(await _app(), path_of(job.target, model), {**job.request, "model": model})


if __name__ == "__main__":
    pairs = [(source, target) for source in MODELS for target in TARGETS if source != target]
    run(version("litellm"), pairs, ask, _app)
