"""What models, servers and versions of an API refuse or name otherwise: TOML files, one reader."""

from streamnorm.profiles.layers import Profiles, shipped_profiles

__all__ = ["Profiles", "shipped_profiles"]
