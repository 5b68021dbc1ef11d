"""The networks: backbones that see and read, and heads that make Gaussians of what they say."""
