"""Services that the endpoints of a gateway share."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm.gateway.compaction import Compactor
from streamnorm.gateway.config import Config
from streamnorm.gateway.large_bodies import BodyThread
from streamnorm.gateway.network import Network
from streamnorm.gateway.routing import Routing
from streamnorm.gateway.storing import GatewayStore


class Services(Struct, frozen=True, kw_only=True):
    """What the endpoints of a gateway share.

    Attributes:
        config: The configuration.
        routing: Chooses the upstreams of a model.
        network: Sends requests to them.
        estimator: Estimates tokens that an upstream does not count, and learns from those that
            upstreams report.
        store: Store of responses; None if none are stored.
        compactor: Opens what is sealed in requests, and compacts conversations.
        bodies: The thread for large bodies.
    """

    config: Config
    routing: Routing
    network: Network
    estimator: TokenEstimator
    store: GatewayStore | None
    compactor: Compactor
    bodies: BodyThread
