"""Rows of the gateway's tables: configuration and metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from msgspec import NODEFAULT, Struct, structs

from streamnorm.gateway import (
    Config,
    DashboardConfig,
    LogConfig,
    ModelConfig,
    PageConfig,
    UpstreamConfig,
)
from streamnorm.gateway.metrics import METRICS

_ATTRIBUTE = re.compile(r"^    (\w+): ((?:.+\n?(?:        .+\n?)*))", re.MULTILINE)


def config_rows() -> Iterable[list[str]]:
    """Yield the keys of a configuration, with their defaults and meanings."""
    return _key_rows(Config)


def upstream_rows() -> Iterable[list[str]]:
    """Yield the keys of an upstream."""
    return _key_rows(UpstreamConfig)


def model_rows() -> Iterable[list[str]]:
    """Yield the keys of an entry of `models`."""
    return _key_rows(ModelConfig)


def page_rows() -> Iterable[list[str]]:
    """Yield the keys of an entry of `pages`."""
    return _key_rows(PageConfig)


def log_rows() -> Iterable[list[str]]:
    """Yield the keys of `log`."""
    return _key_rows(LogConfig)


def dashboard_rows() -> Iterable[list[str]]:
    """Yield the keys of `dashboard`."""
    return _key_rows(DashboardConfig)


def metric_rows() -> Iterable[list[str]]:
    """Yield the metrics, with their labels and meanings."""
    for name, (meaning, labels) in METRICS.items():
        yield [f"`{name}`", ", ".join(f"`{label}`" for label in labels), meaning.rstrip(".")]


def _key_rows(kind: type[Struct]) -> Iterable[list[str]]:
    text = (inspect.getdoc(kind) or "").partition("Attributes:")[2]
    meanings = {
        name: " ".join(words.split()).rstrip(".") for name, words in _ATTRIBUTE.findall(text)
    }
    for field in structs.fields(kind):
        yield [f"`{field.name}`", _default(field), meanings[field.name]]


def _default(field: structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not NODEFAULT else None
    match value:
        case None:
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case int() if field.name.endswith("_bytes"):
            return f"{value >> 20} MiB"
        case int() | float():
            return f"{value:,.10g}"  # fewer digits would be written with an exponent
        case _:
            raise AssertionError(field.name)


_KEYS = ["key", "default", "meaning"]

TABLES = {
    "gateway_config": (_KEYS, config_rows),
    "gateway_log": (_KEYS, log_rows),
    "gateway_dashboard": (_KEYS, dashboard_rows),
    "gateway_metrics": (["metric", "labels", "counts"], metric_rows),
    "gateway_models": (_KEYS, model_rows),
    "gateway_pages": (_KEYS, page_rows),
    "gateway_upstreams": (_KEYS, upstream_rows),
}
"""The heads of the tables of the gateway, and the functions that return their rows."""
