"""What providers refuse in requests, as data: `*.toml`, each rule with where it was seen."""

from streamnorm.profiles.reader import VENDOR
from streamnorm.profiles.rules.reader import RequestRule, read_request_rules, shipped_rules

__all__ = ["VENDOR", "RequestRule", "read_request_rules", "shipped_rules"]
