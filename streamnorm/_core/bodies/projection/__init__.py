"""The reduction of a request to what a target can carry."""

from streamnorm._core.bodies.projection.project import (
    MissingTools,
    RepairPolicy,
    project_request,
)

__all__ = ["MissingTools", "RepairPolicy", "project_request"]
