"""Optional dependencies: imported where they are used, with an error that names the extra."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from .errors import MissingExtraError


def import_optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise `MissingExtraError` naming the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise MissingExtraError(
            f'{purpose} needs {package}, which is not installed ({error}); install it with: pip install "lrgittins[{extra}]"'
        ) from error


def require_optional(*modules: str, extra: str, purpose: str) -> None:
    """Raise `import_optional`'s error now, without loading anything: before work is spent that would need the modules later."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f'{purpose} needs {module}, which is not installed; install it with: pip install "lrgittins[{extra}]"')
