"""One definition of the library as this run needs it: branches that the run cannot take are left out.

Nothing else is changed, and nothing is written anew: what stays is the library's own text with its comments. Guards
(``if ...: raise``) go, since the run passed them; ``note("scores", scores, "B H q k")`` stays as the comment
``# scores: B H q k``.
"""

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_core.records.sources import Library, Place, Source, global_names

Edit = tuple[int, int, bytes]
Block = Sequence[ast.stmt]


@dataclass(frozen=True)
class Facts:
    """What is known of a run before it starts: ``values`` of the names in a module, and the mask rules there are.

    ``dead`` are classes of which there is no object; ``without`` are statements that have nothing to do here, and
    ``passing`` functions that only hand their arguments on.
    """

    values: Callable[[str], Mapping[str, Any]]
    rules: frozenset[str]
    dead: frozenset[str]
    without: frozenset[str]
    passing: frozenset[str]

    def decide(self, module: str, test: ast.expr) -> bool | None:
        """Whether a condition holds in every moment of the run; None where that depends."""
        if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance":
            return False if ast.unparse(test.args[1]) in self.dead else None
        try:
            names = dict(self.values(module))
            return bool(eval(compile(ast.Expression(test), "", "eval"), {"__builtins__": {}}, names))
        except Exception:  # a name that is known only while it runs
            return None


class Pruner:
    """Writes the definitions of one library for one run; ``names`` gives a definition another name where two collide.

    ``used`` are the attributes that the program reads somewhere, ``stored`` those that it sets: a method that nobody
    calls is left out.
    """

    def __init__(self, library: Library, facts: Facts, names: Mapping[Place, str]) -> None:
        self.library, self.facts, self.names = library, facts, names
        self.used: Collection[str] = ()
        self.stored: Collection[str] = ()
        self._functions: dict[Place, str] = {}
        self.behind_dots: dict[str, Place] = {}
        """What was written in place of ``letters.draw`` -> where that stands."""

    def dotted(self, place: Place) -> str:
        """How ``letters.draw`` is written where there are no modules."""
        name = self.names.get(place, f"{place[0].rpartition('.')[2]}_{place[1]}")
        self.behind_dots[name] = place
        return name

    def write(self, place: Place) -> str:
        """The definition at ``place``, with the text that stands behind it if it is a constant that is explained."""
        source = self.library[place[0]]
        node = source.definitions[place[1]]
        if isinstance(node, ast.ClassDef):  # what is left of it depends on what is used elsewhere
            return _Writing(self, source).top(node)
        if place not in self._functions:
            self._functions[place] = _Writing(self, source).top(node)
        return self._functions[place]


class _Writing:
    def __init__(self, pruner: Pruner, source: Source) -> None:
        self.pruner, self.source, self.facts = pruner, source, pruner.facts
        self.edits: list[Edit] = []
        """The small changes, in order: checks that are left out, choices that are known, other names."""

    def top(self, node: ast.stmt) -> str:
        free = {(each.lineno, each.col_offset) for each in global_names(node)}
        self.edits = sorted(self.changes(node, free))
        lines = _used_up(self.statement(node), node)
        body = self.source.tree.body
        behind = body[body.index(node) + 1 : body.index(node) + 2]
        if isinstance(node, ast.Assign | ast.AnnAssign) and behind and _is_text(behind[0]):
            lines += self.docstring(behind[0])
        return "\n".join(lines)

    # ---- statements

    def block(self, body: Block, first: int) -> list[str]:
        """The statements of a block with the comments between them, ``first`` being the line at which it begins."""
        lines: list[str] = []
        real = False
        for node in body:
            start = _first_line(node)
            between = self.lines(first, start - 1)
            first = (node.end_lineno or start) + 1
            if self.skipped(node, body):
                lines += _without_last_comment(between)
                continue
            if between and lines and not lines[-1].strip():
                lines.pop()  # the gap before what was left out
            lines += between
            written = self.docstring(node) if _is_text(node) else self.statement(node)
            real = real or any(line.strip() and not line.strip().startswith("#") for line in written)
            lines += written
            if real and isinstance(_last(node, self), ast.Return | ast.Raise | ast.Continue):
                break
        while lines and not lines[0].strip():
            lines.pop(0)
        while lines and not lines[-1].strip():
            lines.pop()
        if not real and body:
            lines.append(" " * body[0].col_offset + "pass")
        return lines

    def skipped(self, node: ast.stmt, body: Block) -> bool:
        """Guards, checks, methods that nobody calls, and tests that never hold."""
        if isinstance(node, ast.FunctionDef) and node.col_offset and self.is_method(node):
            return not self.is_called(node)
        if isinstance(node, ast.If):
            return _is_guard(node) or (not node.orelse and self.decide(node.test) is False)
        if isinstance(node, ast.For) and all(isinstance(each, ast.If) and _is_guard(each) for each in node.body):
            return True
        if isinstance(node, ast.Expr | ast.Assign) and ast.unparse(node) in self.facts.without:
            return True
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Call) and (
                _is_check(node.value) or self.only_guards(node.value) or _is_note(node.value, said=False)
            )
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(value, ast.Call) and _is_check(value):
                return ast.unparse(target) == ast.unparse(_checked(value))
        return False

    def only_guards(self, call: ast.Call) -> bool:
        """A function of the same module that does nothing but refuse."""
        node = self.source.definitions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if not isinstance(node, ast.FunctionDef):
            return False
        body = [each for each in node.body if not _is_text(each)]
        return all(isinstance(each, ast.If) and _is_guard(each) for each in body)

    def is_method(self, node: ast.FunctionDef) -> bool:
        return any(isinstance(each, ast.ClassDef) and node in each.body for each in self.source.tree.body)

    def is_called(self, node: ast.FunctionDef) -> bool:
        if any(ast.unparse(each).endswith(".setter") for each in node.decorator_list):
            return node.name in self.pruner.stored
        return (node.name.startswith("__") and node.name != "__str__") or node.name == "forward" or (
            node.name in self.pruner.used
        )

    def statement(self, node: ast.stmt) -> list[str]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_note(node.value):
            return [" " * node.col_offset + _said(node.value)]
        if isinstance(node, ast.If):
            return self.choice(node)
        blocks = _blocks(node)
        if not blocks:
            return self.lines(_first_line(node), node.end_lineno or 0)
        lines: list[str] = []
        at = _first_line(node)
        for body in blocks:
            head = self.head_end(node, body, at)
            lines += self.lines(at, head)
            lines += self.block(body, head + 1)
            at = (body[-1].end_lineno or head) + 1
        return lines

    def choice(self, node: ast.If) -> list[str]:
        """What is left of if, elif and else."""
        branches: list[tuple[str, str, Block, int]] = []  # word, test, body, line at which the body begins
        left = set(self.facts.rules)
        at: ast.If | None = node
        while at is not None:
            holds = self.decide(at.test)
            rule = self.rule_of(at.test)
            if rule is not None:
                holds = False if rule not in left else True if left == {rule} else None
                left.discard(rule)
            head = self.head_end(at, at.body, at.lineno)
            if holds is not False and not _is_guard_body(at.body):
                branches.append(("else" if holds else "elif", self.written(at.test), at.body, head + 1))
            if holds or not at.orelse:
                break
            if len(at.orelse) == 1 and isinstance(at.orelse[0], ast.If) and self.is_elif(at.orelse[0]):
                at = at.orelse[0]
                continue
            if not (left == set() and self.facts.rules and rule is not None):
                head = _first_line(at.orelse[0]) - 1
                branches.append(("else", "", at.orelse, head + 1))
            at = None
        indent = " " * node.col_offset
        lines: list[str] = []
        for number, (word, test, body, first) in enumerate(branches):
            written = self.block(body, first)
            if word == "else" and not number:
                return _dedented(written, body[0].col_offset - node.col_offset)
            lines.append(f"{indent}else:" if word == "else" else f"{indent}{'elif' if number else 'if'} {test}:")
            lines += written
        return lines

    def rule_of(self, test: ast.expr) -> str | None:
        """The mask rule that ``name == "window"`` asks for."""
        if not self.source.name.endswith((".masks", ".rules")) or not isinstance(test, ast.Compare):
            return None
        (value,) = test.comparators
        same = isinstance(test.ops[0], ast.Eq) and ast.unparse(test.left) == "name"
        return str(value.value) if same and isinstance(value, ast.Constant) else None

    def decide(self, test: ast.expr) -> bool | None:
        rule = self.rule_of(test)
        if rule is not None:
            return None if rule in self.facts.rules else False
        return self.facts.decide(self.source.name, test)

    def is_elif(self, node: ast.If) -> bool:
        return self.source.text[self.source.span(node)[0] :].startswith(b"elif")

    def docstring(self, node: ast.stmt) -> list[str]:
        """The docstring without its examples and without what it raises."""
        assert isinstance(node, ast.Expr)
        written = self.written(node)
        opening = written[: written.index('"""') + 3]
        paragraphs = written[len(opening) : -3].split("\n\n")
        kept: list[str] = []
        for paragraph in paragraphs:
            beginning = paragraph.strip()
            if beginning.startswith("Raises:"):
                break
            if beginning.startswith(">>>"):
                if kept and kept[-1].rstrip().endswith(":") and len(kept) > 1:
                    kept.pop()
                continue
            kept.append(paragraph.rstrip())
        indent = " " * node.col_offset
        said = indent + opening + "\n\n".join(kept)
        closing = f'\n{indent}"""' if "\n" in said or len(said) > 117 else '"""'
        return (said + closing).split("\n")

    # ---- text

    def head_end(self, node: ast.stmt, body: Block, at: int) -> int:
        """The last line of what stands before a block, comments under it being part of the block."""
        last = _first_line(body[0]) - 1
        while last > at and (not (line := self.raw(last).strip()) or line.startswith("#")):
            last -= 1
        return last

    def raw(self, line: int) -> str:
        return self.source.text[self.source.starts[line - 1] : self.source.starts[line]].decode()

    def lines(self, first: int, last: int) -> list[str]:
        """These lines of the file, with their small changes."""
        if last < first:
            return []
        start, end = self.source.starts[first - 1], self.source.starts[last]
        written = self.edited(start, end).rstrip("\n").split("\n")
        return [line.partition("  # fmt: ")[0] for line in written]

    def written(self, node: ast.expr | ast.stmt) -> str:
        return self.edited(*self.source.span(node))

    def edited(self, start: int, end: int) -> str:
        text, at = b"", start
        for first, last, new in self.edits:
            if at <= first and last <= end:
                text += self.source.text[at:first] + new
                at = last
        return (text + self.source.text[at:end]).decode()

    def changed(self, nodes: Sequence[ast.expr], free: Collection[tuple[int, int]]) -> bytes:
        """The text from the first node to the last, with the small changes in it."""
        at, end = self.source.span(nodes[0])[0], self.source.span(nodes[-1])[1]
        text = b""
        for first, last, new in sorted(edit for each in nodes for edit in self.changes(each, free)):
            text, at = text + self.source.text[at:first] + new, last
        return text + self.source.text[at:end]

    def bare(self, node: ast.expr, inside: ast.expr) -> tuple[int, int]:
        """Where ``inside`` goes in place of ``node``, with the brackets around that if it needs none."""
        start, end = self.source.span(node)
        text = self.source.text
        bracketed = text[start - 1 : start] == b"(" and text[end : end + 1] == b")"
        called = text[start - 2 : start - 1].isalnum() or text[start - 2 : start - 1] in (b"_", b")", b"]")
        atom = isinstance(inside, ast.Name | ast.Attribute | ast.Call | ast.Constant)
        return (start - 1, end + 1) if bracketed and not called and atom else (start, end)

    def changes(self, node: ast.AST, free: Collection[tuple[int, int]]) -> Iterator[Edit]:
        inside: ast.expr | None = None
        if isinstance(node, ast.Call) and node.args and _is_check(node):
            inside = _checked(node)
        elif isinstance(node, ast.IfExp) and (holds := self.decide(node.test)) is not None:
            inside = node.body if holds else node.orelse
        if inside is not None:
            assert isinstance(node, ast.expr)
            yield (*self.bare(node, inside), self.changed([inside], free))
            return
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func) in self.facts.passing:
                yield (*self.source.span(node), self.changed(node.value.args, free))
                return
        if isinstance(node, ast.Attribute):
            meant = self.pruner.library.behind_dot(self.source.name, node)
            if meant is not None:
                yield (*self.source.span(node), self.pruner.dotted(meant).encode())
                return
        if isinstance(node, ast.Name) and (node.lineno, node.col_offset) in free:
            found = self.pruner.library.find(self.source.name, node.id)
            if found is not None and len(found) == 2 and self.pruner.names.get(found, node.id) != node.id:
                yield (*self.source.span(node), self.pruner.names[found].encode())
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node in self.source.tree.body:
            new = self.pruner.names.get((self.source.name, node.name), node.name)
            word = "def " if isinstance(node, ast.FunctionDef) else "class "
            start = self.source.offset(node.lineno, node.col_offset) + len(word)
            yield (start, start + len(node.name), new.encode())
        for each in ast.iter_child_nodes(node):
            yield from self.changes(each, free)


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _last(node: ast.stmt, writing: _Writing) -> ast.stmt:
    """The statement itself, or the last one of a branch that is always taken."""
    if isinstance(node, ast.If) and writing.decide(node.test) is True:
        return node.body[-1]
    return node


def _blocks(node: ast.stmt) -> list[Block]:
    """The blocks of a statement, first to last."""
    found: list[Block] = [getattr(node, name) for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
    found += [handler.body for handler in getattr(node, "handlers", [])]
    return sorted((body for body in found if body[0].lineno > node.lineno), key=lambda body: body[0].lineno)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_guard(node: ast.If) -> bool:
    return not node.orelse and _is_guard_body(node.body)


def _is_guard_body(body: Block) -> bool:
    """It ends with an error. StopIteration is none: it is how an iterator says that it is over."""
    last = body[-1]
    return isinstance(last, ast.Raise) and last.exc is not None and "StopIteration" not in ast.unparse(last.exc)


def _is_check(call: ast.Call) -> bool:
    """``check_whole("seed", seed, 0, 9)``, ``task.check(...)``, ``_check_counts(...)``: passes, or refuses."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name.lstrip("_").startswith("check_") or name == "check"


def _checked(call: ast.Call) -> ast.expr:
    """What a check hands through: its first argument, or the one behind the name of a setting."""
    if not call.args:
        return call
    named = isinstance(call.args[0], ast.Constant) or (len(call.args) > 1 and ast.unparse(call.args[0]) == "field")
    return call.args[1] if named else call.args[0]


def _is_note(call: ast.Call, said: bool | None = None) -> bool:
    """A line of the ledger; ``said`` False: one whose axes are not written down there."""
    note = isinstance(call.func, ast.Name) and call.func.id == "note" and len(call.args) == 3
    return note and (said is None or bool(_said(call)) is said)


def _said(call: ast.Call) -> str:
    name, value, axes = call.args
    if not isinstance(axes, ast.Constant):
        return ""
    what = str(name.value) if isinstance(name, ast.Constant) else value.id if isinstance(value, ast.Name) else ""
    return f"# {what}: {axes.value!s}" if what else ""


def _without_last_comment(lines: list[str]) -> list[str]:
    """The lines without the comment that belongs to what follows them and is not there."""
    while lines and lines[-1].strip().startswith("#"):
        lines = lines[:-1]
    return lines


def _used_up(lines: list[str], before: ast.AST) -> list[str]:
    """The lines without assignments to names that only something left out has read; ``before`` is the whole."""
    always = {name for name, _ in _idle(before)}
    while True:
        tree = ast.parse("\n".join(lines))
        idle = next((each for each in _idle(tree) if each[0] not in always), None)
        if idle is None:
            return lines
        _, node = idle
        kept = _without_last_comment(lines[: node.lineno - 1])
        behind = lines[node.end_lineno :]
        above = kept[-1].strip() if kept else ""
        if behind and not behind[0].strip() and (not above or above.endswith(('"""', ":"))):
            behind = behind[1:]  # no gap at the beginning of a block, and no two in a row
        lines = kept + behind


def _idle(tree: ast.AST) -> list[tuple[str, ast.Assign]]:
    """Assignments, in functions, to names that the function never reads. What draws a number always does something."""
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        read = {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if node.targets[0].id not in read and "generator" not in ast.unparse(node.value):
                    found.append((node.targets[0].id, node))
    return found


def _dedented(lines: list[str], by: int) -> list[str]:
    return [line[by:] if line[:by].isspace() else line for line in lines]
