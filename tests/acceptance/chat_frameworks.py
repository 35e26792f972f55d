"""What the frameworks that read Chat Completions make of a stream.

They are imported where they are used, as each takes a second or more.
"""

from __future__ import annotations

from typing import Any

from acceptance.chat_readers import Call, Read, Said, Served, Tokens, neighbours_joined, proof_of

__all__ = [
    "langchain",
    "langchain_sync",
    "openai_agents",
    "pydantic_ai_openai",
    "pydantic_ai_openrouter",
]


def pydantic_ai_openai(served: Served) -> Read:
    """Read with pydantic-ai's model for OpenAI and its like."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return _pydantic_ai(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=served.client)))


def pydantic_ai_openrouter(served: Served) -> Read:
    """Read with pydantic-ai's model for OpenRouter, which knows `reasoning_details`."""
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    provider = OpenRouterProvider(openai_client=served.client)
    return _pydantic_ai(OpenRouterModel("m/m", provider=provider))


def _pydantic_ai(model: Any) -> Read:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest, TextPart, ThinkingPart, ToolCallPart

    request = [ModelRequest.user_text_prompt("hi")]
    kinds = {TextPart: "text", ThinkingPart: "reasoning", ToolCallPart: "call"}
    finishes = {"tool_call": "tool_calls"}

    async def read() -> Said:
        async with model_request_stream(model, request) as stream:
            async for _ in stream:
                pass
            answer: Any = stream.get()
        parts, usage, details = answer.parts, answer.usage, answer.provider_details or {}
        texts = [part for part in parts if isinstance(part, TextPart)]
        thoughts = [part for part in parts if isinstance(part, ThinkingPart)]
        calls = [part for part in parts if isinstance(part, ToolCallPart)]
        sources: list[Any] = [
            source for text in texts for cited in text.citations or () for source in cited.sources
        ]
        finish = answer.finish_reason or ""
        return Said(
            answer.provider_response_id or "",
            answer.model_name or "",
            neighbours_joined(kinds[type(part)] for part in parts),
            "".join(part.content for part in texts),
            "".join(part.content for part in thoughts),
            tuple((part.content, part.signature) for part in thoughts if part.signature),
            details.get("refusal", ""),
            tuple(Call(part.tool_call_id, part.tool_name, str(part.args)) for part in calls),
            tuple(filter(None, (proof_of(part.provider_details or {}) for part in calls))),
            tuple((source.url, source.title or "") for source in sources),
            finishes.get(finish, finish),
            Tokens(
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens,
                usage.details.get("reasoning_tokens", 0),
            ),
        )

    return read


def openai_agents(served: Served) -> Read:
    """Read with the model of the OpenAI Agents SDK."""
    import agents

    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel("m", served.client)
    settings = agents.ModelSettings()
    untraced = agents.ModelTracing.DISABLED

    async def read() -> Said:
        stream = model.stream_response(
            None, "hi", settings, [], None, [], untraced, None, None, None
        )
        events = [event async for event in stream]
        assert events[-1].type == "response.completed"
        response: Any = events[-1].response
        parts = [part for item in response.output for part in getattr(item, "content", None) or ()]
        texts = [part for part in parts if part.type == "output_text"]
        thoughts = [item for item in response.output if item.type == "reasoning"]
        calls = [item for item in response.output if item.type == "function_call"]
        shown = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        assert shown == "".join(text.text for text in texts)
        usage = response.usage
        return Said(
            text=shown,
            reasoning="".join(summary.text for item in thoughts for summary in item.summary),
            refusal="".join(part.refusal for part in parts if part.type == "refusal"),
            calls=tuple(Call(item.call_id, item.name, item.arguments) for item in calls),
            call_proofs=tuple(
                item.provider_data["thought_signature"]
                for item in calls
                if "thought_signature" in item.provider_data
            ),
            sources=tuple((note.url, note.title) for text in texts for note in text.annotations),
            tokens=Tokens(
                usage.input_tokens,
                usage.output_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.input_tokens_details.cache_write_tokens,
                usage.output_tokens_details.reasoning_tokens,
            )
            if usage is not None
            else Tokens(),
        )

    return read


def langchain(served: Served) -> Read:
    """Read with `ChatOpenAI.astream` of LangChain."""
    model = _langchain_model(served)

    async def read() -> Said:
        return _langchain_said([chunk async for chunk in model.astream("hi")])

    return read


def langchain_sync(served: Served) -> Read:
    """Read with `ChatOpenAI.stream` of LangChain."""
    model = _langchain_model(served)

    async def read() -> Said:
        return _langchain_said(list(model.stream("hi")))

    return read


def _langchain_model(served: Served) -> Any:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    return ChatOpenAI(
        model="m",
        api_key=SecretStr("-"),
        base_url="http://t",
        http_client=served.http,
        http_async_client=served.async_http,
        max_retries=0,
        stream_usage=True,
        use_responses_api=False,
    )


def _langchain_said(chunks: list[Any]) -> Said:
    from langchain_core.messages.ai import add_ai_message_chunks

    message: Any = add_ai_message_chunks(chunks[0], *chunks[1:])
    usage: dict[str, Any] = message.usage_metadata or {}
    before, after = usage.get("input_token_details", {}), usage.get("output_token_details", {})
    return Said(
        model=message.response_metadata.get("model_name", ""),
        text=str(message.text),
        calls=tuple(
            Call(call["id"], call["name"], call["args"]) for call in message.tool_call_chunks
        ),
        finish=message.response_metadata.get("finish_reason", ""),
        tokens=Tokens(
            usage.get("input_tokens", 0),
            usage.get("output_tokens", 0),
            _of_any_tier(before, "cache_read"),
            _of_any_tier(before, "cache_creation"),
            _of_any_tier(after, "reasoning"),
        ),
    )


def _of_any_tier(details: dict[str, int], key: str) -> int:
    return sum(count for name, count in details.items() if name.endswith(key))
