"""One JSON document, valid everywhere: NaN and infinities are null, arrays are lists."""

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(document: Mapping[str, object]) -> str:
    """`document` as JSON. ASCII only, so that it survives any terminal or pipe."""
    return json.dumps(plain(document), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """Mappings, sequences and numbers of any library as plain Python; not-finite numbers become None.

    Arrays and scalars of NumPy and JAX convert by their ``tolist``, SymPy numbers by ``float``, the rest by ``str``.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if getattr(value, "is_number", False) is True:
        return plain(float(value))
    return str(value)
