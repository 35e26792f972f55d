"""Facts about models, servers and API versions: the fields that they refuse, rename or need."""

from streamnorm.profiles.layers import Profiles, shipped_profiles

__all__ = ["Profiles", "shipped_profiles"]
