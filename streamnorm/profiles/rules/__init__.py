"""Request rules of providers, as TOML: which requests they refuse, with which errors."""

from streamnorm.profiles.layers import VENDOR
from streamnorm.profiles.rules.reader import RequestRule, read_request_rules, shipped_rules

__all__ = ["VENDOR", "RequestRule", "read_request_rules", "shipped_rules"]
