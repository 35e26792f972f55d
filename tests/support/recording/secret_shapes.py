"""Examples of keys and tokens in each known shape."""

from __future__ import annotations

__all__ = ["SHAPED"]

# As long and as odd as the real ones, but nobody's.
_MIXED = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3hI5jK7lM9nO1pQ3r"
SHAPED = {
    "openai": f"sk-{_MIXED[:48]}",
    "openai project": f"sk-proj-{_MIXED[:20]}_{_MIXED[:30]}-{_MIXED}",
    "deepseek": "sk-0123456789abcdef0123456789abcdef",
    "anthropic": f"sk-ant-api03-{_MIXED[:40]}-{_MIXED[:40]}_AA",
    "openrouter": f"sk-or-v1-{'0123456789abcdef' * 4}",
    "google": f"AIzaSy{_MIXED[:33]}",
    "google oauth": f"ya29.a0{_MIXED}_-{_MIXED}",
    "groq": f"gsk_{_MIXED[:52]}",
    "xai": f"xai-{_MIXED}",
    "hugging face": f"hf_{_MIXED[:34]}",
    "aws": "AKIAQ2W3E4R5T6Y7U8I9",
    "github": f"ghp_{_MIXED[:36]}",
    "github fine-grained": f"github_pat_{_MIXED[:22]}_{_MIXED[:59]}",
    "perplexity": f"pplx-{_MIXED[:48]}",
    "jwt": f"eyJhbGciOiJI{_MIXED[:8]}.eyJzdWIiOiIx{_MIXED}.{_MIXED[:43]}",
    "organization": f"org-{_MIXED[:24]}",
    "project": f"proj_{_MIXED[:24]}",
    "nvidia": f"nvapi-{_MIXED[:30]}_{_MIXED[:20]}-{_MIXED[:12]}",
    "cerebras": f"csk-{_MIXED[:48].lower()}",
    "fireworks": f"fw_{_MIXED[:24]}",
    "replicate": f"r8_{_MIXED[:37]}",
    "google ai studio": f"AQ.Ab8RN6{_MIXED[:30]}-_{_MIXED[:10]}",
    "gitlab": f"glpat-{_MIXED[:12]}_{_MIXED[:7]}",
    "gitlab, routable": f"glpat-{_MIXED[:27]}.01.0z1abcdef",
    "slack": f"xoxb-123456789012-1234567890123-{_MIXED[:24]}",
    "slack user": f"xoxp-123456789012-123456789012-{_MIXED[:32]}",
}
