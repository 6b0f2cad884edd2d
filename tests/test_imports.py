"""Modules import each other in one direction, also inside functions: what is imported late is late for the time it takes, never because of a cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src"
LAYERS = ("spatial", "model", "mechanics", "steppers", "estimate", "experiment", "report", "cli")
"""From below; a layer imports only those before it (CONTRIBUTING.md)."""


def _modules() -> dict[str, Path]:
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in (ROOT / "calibody").rglob("*.py")}


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All import statements that run; those for the type checker do not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        yield from _statements(child)


def _graph() -> dict[str, set[str]]:
    modules = _modules()
    graph = {}
    for name, path in modules.items():
        found: set[str] = set()
        for statement in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.Import):
                found |= {alias.name for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom):
                assert not statement.level, f"{name} imports relatively; write the whole name."
                whole = {f"{statement.module}.{alias.name}" for alias in statement.names}
                found |= {w if w in modules else str(statement.module) for w in whole}
        graph[name] = {f for f in found if f in modules and f != name}
    return graph


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """One of the cycles, or nothing."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := visit(other, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


def test_no_module_imports_itself_by_way_of_others() -> None:
    found = _cycle(_graph())
    assert not found, " -> ".join(found)


def test_a_cycle_would_be_found() -> None:
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"] and _cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_layers_import_only_those_below() -> None:
    graph = _graph()
    layer = {name: LAYERS.index(part) for name in graph if (part := [*name.split("."), ""][1]) in LAYERS}
    wrong = [f"{name} imports {other}" for name, found in graph.items() for other in found if name in layer and other in layer and layer[other] > layer[name]]
    assert not wrong, wrong
