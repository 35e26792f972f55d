"""Names of servers by their hosts."""

from __future__ import annotations

import pytest

from streamnorm.http.urls import server_of


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("api.openai.com", "openai"),
        ("API.DeepSeek.com:443", "deepseek"),
        ("user:pass@api.groq.com", "groq"),
        ("openrouter.ai", "openrouter"),
        ("api.x.ai", "xai"),
        ("my-x.ai", "my-x"),
        ("api.z.ai", "zai"),
        ("my-resource.openai.azure.com", "azure"),
        ("generativelanguage.googleapis.com", "gemini"),
        ("europe-west1-aiplatform.googleapis.com", "vertex"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"),
        ("dashscope-intl.aliyuncs.com", "qwen"),
        ("api.vendor.co.uk", "vendor"),
        ("vendor.co.uk", "vendor"),
        ("api.vendor.com.au", "vendor"),
        ("co.uk", "co"),
        ("localhost:8000", None),
        ("127.0.0.1:8000", None),
        ("10.1.2.3", None),
        ("[::1]:80", None),
        ("[::ffff:10.1.2.3]", None),
        ("gpu-box", None),
        ("gpu-box.local", None),
        ("llm-gateway.example.com", None),
        ("host.docker.internal", None),
        ("[nothing", None),
    ],
)
def test_server_is_known_by_the_host(host: str, server: str | None) -> None:
    assert server_of(f"https://{host}/v1/chat/completions") == server
