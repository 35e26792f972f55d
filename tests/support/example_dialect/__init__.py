"""Telegraph, a made-up dialect that is added from outside the package."""
