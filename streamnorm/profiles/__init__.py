"""Profiles: facts about models, servers and API versions, in TOML files and their readers."""

from streamnorm.profiles.layers import Profiles, shipped_profiles

__all__ = ["Profiles", "shipped_profiles"]
