"""The simplification of a tool's JSON Schema for servers that read only the core of it.

What Anthropic's and OpenAI's strict modes, Gemini's function declarations and the grammars of
local servers all accept is kept: one `type`, `enum`, `properties`, `required`, `items`,
`minItems`, `maxItems`, `minimum`, `maximum`, some formats, `anyOf`, `title`, `description`.
The rest is written with these keywords where they can say it, else dropped, so that a value
that was valid stays valid, with two exceptions: a schema with `properties`, `items` and the
like but without `type` becomes one of objects or arrays, which is what its author means, and
the union of several objects becomes one object at the root, where no union is accepted.

A nullable type becomes `anyOf` with `{"type": "null"}`, and is not made plainly that type:
where every property is required, as OpenAI's strict mode demands, the model could no longer
leave one out.  A recursive `$ref` is cut where it begins again, and is no error: the model
sees one level of such a type, while an error would make the whole conversation impossible.

The result depends on the schema alone, so that the encoding of a tool never changes.
"""

from streamnorm._core.schemas.simplify import simplify_schema

__all__ = ["simplify_schema"]
