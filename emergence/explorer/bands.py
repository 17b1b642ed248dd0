"""Exact SGD beside the page's flow: quantiles of simulated runs, computed once and kept with the package."""

import json
from importlib.resources import files
from typing import Any

_FILE = "bands.json"


def stored() -> list[dict[str, Any]]:
    """The bands that come with the package."""
    place = files(__package__) / _FILE
    found: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))["bands"] if place.is_file() else []
    return found
