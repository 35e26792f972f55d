"""Profiles: facts about models, servers and API versions, in TOML files and their readers."""

from streamnorm._core.errors import ProfileError
from streamnorm.profiles.layers import Profiles

__all__ = ["ProfileError", "Profiles"]
