"""The noises by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from dpmpc.arguments import NOISES, SIMULATED_NOISES
from dpmpc.errors import InputError
from dpmpc.noise.base import Noise
from dpmpc.storage import rebuilt


def _class_at(place: str) -> type[Noise]:
    module, _, name = place.partition(".")
    found: type[Noise] = getattr(importlib.import_module(f"dpmpc.noise.{module}"), name)
    return found


FAMILIES: dict[str, type[Noise]] = {name: _class_at(place) for name, place in (NOISES | SIMULATED_NOISES).items()}
"""What a saved task may name; a noise from outside the package is added here."""


def family_named(name: object) -> type[Noise]:
    """Return the noise of this name, or raise `InputError`."""
    if not isinstance(name, str) or name not in FAMILIES:
        raise InputError(f"noise: {name!r} given, one of {', '.join(FAMILIES)} expected")
    return FAMILIES[name]


def noise_from(description: Mapping[str, Any]) -> Noise:
    """Make the noise that `Noise.describe` described.

    Parameters
    ----------
    description : mapping
        ``name`` and the parameters of that family, nothing else.

    Returns
    -------
    Noise

    Raises
    ------
    InputError
        If the name is unknown, or a parameter is missing, superfluous or out of range.
    """
    return rebuilt("noise", FAMILIES, description)
