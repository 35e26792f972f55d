"""Telegraph, a made-up dialect registered from outside the package."""
