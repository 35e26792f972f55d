"""The server or failure that each Gemini stream is from."""

from __future__ import annotations

__all__ = ["REASONS"]

_FRAGMENTS = "Vertex streams the arguments of a call as partialArgs."
_REPEATED = "Old Gemini models and proxies repeat what they sent."
_FINISH = "Old Gemini models send a finish reason in every chunk."
_LENGTH = "The model reaches its limit within a string of the arguments."
_CUT = "The connection to the provider is lost, and the proxy ends its own response normally."
_MIXED = "A proxy that mixes the fragments of two calls."
_SPLICED = "A gateway that retries its upstream splices the second answer into the first."
_IDS = "Proxies that make ids for calls give two calls one id."
_CODE = "Code execution shows a finish reason before its result."

REASONS: dict[str, str] = {
    "two calls in one chunk": "Gemini sends parallel calls as parts of one chunk.",
    "arguments in fragments": _FRAGMENTS,
    "fragments that repeat id and name": _FRAGMENTS,
    "fragments that repeat the name": _FRAGMENTS,
    "two calls of one name without ids": "The Gemini API sends calls without ids.",
    "fragments that end in the chunk of the finish": _FRAGMENTS,
    "call repeated after the finish": _REPEATED,
    "end of a call repeated": _REPEATED,
    "finish in every chunk": _FINISH,
    "finish beside code": _CODE,
    "finish that says nothing, then one": "Proxies write the default of an enum.",
    "unknown finish beside a call": "New finish reasons come without notice.",
    "finish taken back for another": _FINISH,
    "finish taken back by a call": _FINISH,
    "block reason that says nothing": "Proxies write the default of an enum.",
    "response id that comes late": "Proxies that do not know the id of the first chunk.",
    "counts of two snapshots": "Gemini sends counts in nearly every chunk, each of other parts.",
    "finish as a number": "Vertex with enum-encoding=int writes numbers for enums.",
    "signature behind the finish": "Gemini signs an empty text part in the last chunk.",
    "second candidate between": "candidateCount of two mixes candidates.",
    "empty text beside a call": "Proxies write the default of a field.",
    "string open at the finish": _LENGTH,
    "string open at the end of its call": _FRAGMENTS,
    "call that goes on for ever": _FRAGMENTS,
    "call that never got arguments": _FRAGMENTS,
    "call cut by the next": _FRAGMENTS,
    "call cut by text": _FRAGMENTS,
    "arguments as half a text": "Converters from Chat send arguments as a text.",
    "length within a string": _LENGTH,
    "cut after text that takes a finish back": _CUT,
    "cut after half a call that takes a finish back": _CUT,
    "cut after the fragment of a call that had finished": _CUT,
    "fragment of the first call within the second": _MIXED,
    "named fragment of the first call within the second": _MIXED,
    "fragment that names another tool": _MIXED,
    "fragment of no call": "A proxy loses the start of a call.",
    "fragment of a call that was cut by text": _MIXED,
    "whole arguments for a call in fragments": _REPEATED,
    "whole arguments beside fragments": _MIXED,
    "value within a string": _MIXED,
    "end of a string repeated": _REPEATED,
    "number that is none": "Proxies write numbers as text.",
    "one id for two calls": _IDS,
    "one id for two arguments": _IDS,
    "text and call in one part": "Proxies that merge parts.",
    "two candidates without an index": "Proxies leave out an index.",
    "candidate with an index that is none": "Proxies write numbers as text.",
    "second answer spliced in": _SPLICED,
    "finish beside code at the end": _CODE,
    "finish that says nothing at the end": _CUT,
    "block reason that says nothing at the end": _CUT,
    "candidate without a finish": "One candidate of two is cut.",
    "error after the finish": "An overloaded server fails behind its last chunk.",
    "result of one of two codes": _CODE,
}
