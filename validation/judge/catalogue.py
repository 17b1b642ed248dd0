"""All claims, found by walking the folder: those of every module of `validation.claims`."""

from functools import lru_cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import validation.claims
from validation.judge.claim import Claim
from validation.judge.selection import natural


@lru_cache(maxsize=1)
def modules() -> dict[ModuleType, tuple[Claim, ...]]:
    """The modules with claims, and these; the one that takes longest first, by ``COST``, its seconds (0 if it says none)."""
    names = sorted(entry.name for entry in walk_packages(validation.claims.__path__, "validation.claims."))
    found = {module: claims_of(module) for module in map(import_module, names)}
    return {
        module: found[module] for module in sorted(found, key=lambda one: -getattr(one, "COST", 0)) if found[module]
    }


def claims_of(module: ModuleType) -> tuple[Claim, ...]:
    """The claims that a module defines."""
    return tuple(
        one for one in vars(module).values() if isinstance(one, Claim) and one.runner.__module__ == module.__name__
    )


def catalogue() -> list[Claim]:
    """Every claim, sorted by letter and number."""
    return sorted((claim for claims in modules().values() for claim in claims), key=lambda claim: natural(claim.id))


def module_of(claim: Claim) -> ModuleType:
    """The module of a claim. Raises `LookupError` for a claim that is not in the catalogue."""
    for module, claims in modules().items():
        if any(one.id == claim.id for one in claims):
            return module
    raise LookupError(f"claim {claim.id} is not in the catalogue")
