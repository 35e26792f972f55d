"""The encoder of OpenAI Responses."""

from streamnorm.dialects.openai_responses.encode.encoder import ResponsesEncoder

__all__ = ["ResponsesEncoder"]
