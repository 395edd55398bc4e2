"""The public names: table, type checkers' view and docstrings agree."""

from __future__ import annotations

import ast
import importlib
import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest

import lrgittins as lg

NAMES = [name for name in lg.__all__ if name != "__version__"]


def test_table_and_type_checkers_view_agree() -> None:
    tree = ast.parse(Path(lg.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {node.module: sorted(alias.name for alias in node.names) for node in block.body if isinstance(node, ast.ImportFrom)}
    assert seen == {module: sorted(names) for module, names in lg._EXPORTS.items()}


@pytest.mark.parametrize("name", NAMES)
def test_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(lg, name)
    module = importlib.import_module(f"lrgittins.{lg._MODULE_OF[name]}")
    assert value is getattr(module, name) and value.__module__ == module.__name__
    assert name in dir(lg)
    assert value.__doc__ and len(value.__doc__.splitlines()[0]) > 20


def public_callables() -> list[tuple[str, Any]]:
    """Exported functions, and the public methods the exported classes define in this package."""
    found = []
    for name in NAMES:
        value = getattr(lg, name)
        if inspect.isclass(value):
            if issubclass(value, BaseException):
                continue
            for attribute, member in inspect.getmembers(value):
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and not attribute.startswith("_") and function.__module__.startswith("lrgittins"):
                    found.append((f"{name}.{attribute}", function))
        else:
            found.append((name, value))
    return found


@pytest.mark.parametrize(("name", "function"), public_callables(), ids=[name for name, _ in public_callables()])
def test_callables_are_typed_and_documented(name: str, function: Any) -> None:
    assert function.__doc__, f"{name} has no docstring"
    signature = inspect.signature(function)
    untyped = [p.name for p in signature.parameters.values() if p.name not in ("self", "cls") and p.annotation is inspect.Parameter.empty]
    assert untyped == [] and signature.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(("Error", "Warning"))])
def test_docstring_is_numpydoc_and_names_its_parameters(name: str) -> None:
    docscrape = pytest.importorskip("numpydoc.docscrape")
    value = getattr(lg, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # unknown sections
        doc = docscrape.NumpyDocString(inspect.getdoc(value) or "", config={"name": name})
    documented = {
        part.strip()
        for section in ("Parameters", "Other Parameters", "Attributes")
        for entry in doc[section]
        for part in entry.name.split(",")
    }
    if inspect.isfunction(value):
        missing = [parameter for parameter in inspect.signature(value).parameters if parameter not in documented]
        assert missing == []


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        lg.frobnicate  # noqa: B018
