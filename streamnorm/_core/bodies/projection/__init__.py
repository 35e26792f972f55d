"""The reduction of a request to what a target can carry."""

from streamnorm._core.bodies.projection.project import project_request
from streamnorm._core.bodies.projection.results import FilledCalls, RepairPolicy
from streamnorm._core.bodies.projection.tools import MissingTools

__all__ = ["FilledCalls", "MissingTools", "RepairPolicy", "project_request"]
