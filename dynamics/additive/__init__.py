"""The additive model in time: coupled flows, and online SGD exact in law."""
