"""The server or failure that each Anthropic stream is from."""

from __future__ import annotations

__all__ = ["REASONS"]

_RESENT = "A gateway that retries its upstream repeats events the client already has."
_RETRY = "A gateway that retries its upstream splices the second answer into the first."
_CONVERTER = "Converters from Chat send an argument fragment under the index of another call."
_LATE = "Converters from Chat send fragments of a call behind its content_block_stop."
_LOST = "A proxy that drops an event loses the start of the block."
_CUT = "The connection to the provider is lost, and the proxy ends its own response normally."
_FINISH = "Compatible servers order the events of the end by their own code."
_WHOLE = "Programmatic tool calls hold the whole answer in message_start."
_LENGTH = "The model reaches its limit within the arguments of a call."

REASONS: dict[str, str] = {
    "start of a call twice": _RESENT,
    "start of a call twice around a ping": _RESENT,
    "message_start twice": _RETRY,
    "message_start again amid text": _RETRY,
    "stop twice, and of a block that never was": "Converters that stop all indexes at the end.",
    "nothing for stopped and unknown blocks": "Converters that send empty deltas to every index.",
    "arguments again after the stop of their call": _RESENT,
    "input of a start again after the stop": _RESENT,
    "signature again after the stop": _RESENT,
    "text of a start again after the stop": _RESENT,
    "text of a start again in the first delta": "Servers that put the first text into the start.",
    "text amid the arguments of a call": "Models behind OpenRouter write text within a call.",
    "thinking amid text": "Converters that keep one block open for thinking and text.",
    "arguments of two calls, interleaved": "Converters from Chat keep all calls open at once.",
    "halves of a character around another block's text": "A tokenizer cuts an emoji in two.",
    "input in the start, and the same in deltas": "Compatible servers fill the input twice.",
    "no stop of the last block": _FINISH,
    "no message_stop": _FINISH,
    "message_delta twice": "Servers that send cumulative usage in a second message_delta.",
    "message_delta without a reason first": "Servers that send usage before the stop reason.",
    "message_delta before the last stop": _FINISH,
    "whole answer in message_start": _WHOLE,
    "block after those in message_start": _WHOLE,
    "no indexes": "Compatible servers that leave out what has a default.",
    "indexes that fall": "Converters that number calls by their position in the response.",
    "end_turn with a call": "Ollama and converters map the finish reason without the calls.",
    "a line of spaces behind the data": "Proxies that pad events against buffering.",
    "a line of spaces in place of the last blank line": "Proxies that pad the last event.",
    "half arguments at tool_use": "vLLM: tool_use hides that the limit was reached.",
    "half arguments at max_tokens": _LENGTH,
    "arguments that lack a piece": "A proxy loses a fragment in the middle.",
    "half of a JSON text in the start": "Compatible servers send the input as a text.",
    "arguments for a stopped call while another is open": _LATE,
    "arguments for a stopped call while the server's is open": _LATE,
    "other arguments after the stop": _LATE,
    "arguments at an unknown index, one call open": _CONVERTER,
    "arguments at an unknown index, two calls open": _CONVERTER,
    "arguments without an index, two calls open": _CONVERTER,
    "arguments at the index of a text while a call is open": _CONVERTER,
    "arguments before the start of their call": "A proxy that reorders events of two calls.",
    "arguments that are no text": "Converters from Gemini send arguments as an object.",
    "text at the index of a tool's result": _CONVERTER,
    "index of a wrong type": "Proxies in loosely typed languages write numbers as text.",
    "signature for stopped thinking while other is open": _LATE,
    "signature at the index of a text": _CONVERTER,
    "source of a stopped text while another is open": _LATE,
    "text for a stopped block while another is open": _LATE,
    "text at an unknown index": _LOST,
    "text at the index of a call while a text is open": "LiteLLM: text goes into the open call.",
    "thinking for a stopped block": "claude-code-router: more reasoning for a closed block.",
    "text without any block": _LOST,
    "start of a call again after its arguments": "new-api starts a call each time it has a name.",
    "start of a call again after its stop": "new-api starts a call each time it has a name.",
    "another call of the same id": "Servers that make ids from the tool's name.",
    "call at the index of an open call": "llm-rosetta gives two calls one index.",
    "call at the index of a stopped text": "Converters that count texts and calls apart.",
    "the blocks again after a second message_start": _RETRY,
    "another message": _RETRY,
    "message_start again with other content": _RETRY,
    "a call of message_start again as a block": _WHOLE,
    "a block at the index of one in message_start": _WHOLE,
    "other input in the start than in deltas": "Compatible servers fill the input twice.",
    "cut with a stop reason in message_start alone": _CUT,
    "cut after the whole answer in message_start": _CUT,
    "cut in a block after message_delta": _CUT,
    "cut after a block that followed message_delta": _CUT,
    "cut after text that followed message_delta": _CUT,
    "two stop reasons": "A proxy that appends its own end behind the provider's.",
    "message_stop in a call without a stop reason": "Proxies that end every stream alike.",
    "cut in a delta, with a line of spaces": _CUT,
    "cut before message_stop, with a line of spaces": _CUT,
}
