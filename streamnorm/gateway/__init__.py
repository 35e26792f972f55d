"""HTTP gateway that connects clients of any dialect to any provider.

    app = streamnorm.gateway.app(streamnorm.gateway.read_config("gateway.toml"))

A request comes in at the `application`, which decodes its body; `admission` says who may ask.
`messages` answers it: `routing` chooses the upstreams, `attempts` asks one after the other over
the `network` until an answer begins, and the `ClientStream` writes that to the client.  `config`
is what a configuration says, and `pages` what pages may do and get.  `observing` records what is
known of each request and logs it in a thread of its own; `metrics` and `telemetry` report it.
With a `[dashboard]`, `dashboard` shows it to administrators in a browser.
"""

try:
    from streamnorm.gateway.application import Gateway, from_environment
except ModuleNotFoundError as exc:  # aiohttp, or backports.zstd
    # Without any package of the namespace, Python misses `backports`.
    missing = "backports.zstd" if exc.name == "backports" else exc.name
    raise ImportError(
        f"no {missing}, expected the extra `serve`: pip install '.[serve]' in a clone"
    ) from exc

from streamnorm.gateway.config import (
    Config,
    ConfigError,
    DashboardConfig,
    LogConfig,
    ModelConfig,
    PageConfig,
    UpstreamConfig,
    read_config,
)
from streamnorm.gateway.observing import (
    CallRecord,
    JSONFormatter,
    Observer,
    QueuedHandler,
    RunningAnswer,
    UpstreamFailure,
)

__all__ = [
    "CallRecord",
    "Config",
    "ConfigError",
    "DashboardConfig",
    "Gateway",
    "JSONFormatter",
    "LogConfig",
    "ModelConfig",
    "Observer",
    "PageConfig",
    "QueuedHandler",
    "RunningAnswer",
    "UpstreamConfig",
    "UpstreamFailure",
    "app",
    "from_environment",
    "read_config",
]

app = Gateway
