"""The breaks that are possible in a Python source, found in its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scripts.mutants.rules import LARGEST_CONSTANT, avoids
from scripts.mutants.site import Edit, Site, numbered

BOUNDARIES: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
OPPOSITES: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
SWAPPED_METHODS = {"append": "appendleft", "appendleft": "append", "popleft": "pop"}
LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LEAST_CODES = 2


def scan(source: str) -> list[Site]:
    """All of them, in the order of the source."""
    return numbered(_Scanner(source).sites())


class _Scanner:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tree = ast.parse(source)
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._ascii = source.isascii()
        self._parents: dict[ast.AST, ast.AST] = {
            child: parent for parent in ast.walk(self._tree) for child in ast.iter_child_nodes(parent)
        }
        self._found: list[Site] = []
        self._function = ""

    def sites(self) -> list[Site]:
        self._visit(self._tree, "", {})
        return self._found

    # --- where ------------------------------------------------------------------------------------------------------

    def _at(self, line: int, column: int) -> int:
        begin = self._lines[line - 1]
        if self._ascii:
            return begin + column
        text = self._source[begin : self._lines[line]]
        return begin + len(text.encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt | ast.excepthandler | ast.keyword | ast.arg) -> tuple[int, int]:
        if node.end_lineno is None or node.end_col_offset is None:
            raise AssertionError("the parser sets the end of each node")
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _add(self, pattern: str, node: ast.expr | ast.stmt, becomes: str, *, was: str | None = None) -> None:
        start, end = self._span(node)
        said = ast.unparse(node) if was is None else was
        self._found.append(Site(pattern, self._function, said, becomes, (Edit(start, end, becomes),)))

    # --- the walk ---------------------------------------------------------------------------------------------------

    def _visit(self, node: ast.AST, function: str, types: dict[str, str]) -> None:
        """Look at `node` and its children; `types` are those of the names and `self`'s attributes seen there."""
        if isinstance(node, FUNCTIONS):
            function = f"{function}.{node.name}" if function else node.name
            if avoids("function", function) or self._is_overload(node):
                return
            types = {name: kind for name, kind in types.items() if name.startswith("self.")} | _parameters(node)
        elif isinstance(node, ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
            types = _attributes(node)
        elif isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom | ast.AnnAssign):
            if not isinstance(node, ast.AnnAssign):
                return
            self._function = function
            self._statement(node)
            if node.value is not None:
                self._visit(node.value, function, types)
            return
        elif isinstance(node, ast.Raise):
            return  # its words are for people; the statement itself goes with its guard
        elif _is_left_alone(node):
            return
        self._function = function
        if isinstance(node, ast.stmt):
            self._statement(node)
        if isinstance(node, ast.expr):
            self._expression(node, types)
        if isinstance(node, ast.ExceptHandler):
            self._handler(node)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self._visit(child, function, types)

    def _is_overload(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        marks = {ast.unparse(mark).rpartition(".")[2] for mark in node.decorator_list}
        return bool(marks & {"overload", "abstractmethod"})

    # --- statements -------------------------------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If | ast.While):
            self._condition(node)
        elif isinstance(node, FUNCTIONS):
            self._defaults(node)
        elif isinstance(node, ast.Expr):
            self._effect(node)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            self._assignment(node)
        elif isinstance(node, ast.Delete):
            self._add("effect dropped", node, "pass")
        elif _is_plain_exit(node) and not self._is_last(node) and not self._is_guard_of(node):
            self._add("exit dropped", node, "pass")
        if isinstance(node, ast.Return | ast.Assign):
            self._flip(node.value)

    def _condition(self, node: ast.If | ast.While) -> None:
        test, text = node.test, ast.unparse(node.test)
        if isinstance(node, ast.While):
            if not isinstance(test, ast.Constant):
                self._add("condition negated", test, _negated(test, self._text(test)), was=text)
            return
        if _raises(node.body, avoided=True):
            return
        if not _is_comparison(test):  # that one is negated by itself
            self._add("condition negated", test, _negated(test, self._text(test)), was=text)
        if isinstance(node.body[-1], EXITS) and not node.orelse:
            self._add("guard dropped", test, "False", was=text)

    def _effect(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and not avoids("call", ast.unparse(value.func)):
            self._add("effect dropped", node, "pass")

    def _assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        within = self._function.rpartition(".")[2]
        if within in {"__init__", "__post_init__", "__new__", "__enter__"} or node.value is None:
            return  # without it there is nothing to go on with
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            self._add("assignment dropped", node, "pass")
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node.value):
            sign = "-=" if isinstance(node.op, ast.Add) else "+="
            becomes = f"{self._text(node.target)} {sign} {self._text(node.value)}"
            self._add("sign changed", node, becomes)

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            self._flip(default)

    def _flip(self, node: ast.expr | None) -> None:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, bool):
            return
        parent = self._parents[node]
        said = ast.unparse(parent) if isinstance(parent, ast.Return | ast.Assign | ast.keyword) else ast.unparse(node)
        if isinstance(parent, ast.arguments):
            said = f"a default: {self._name_of_default(parent, node)}={node.value}"
        self._add("flag flipped", node, str(not node.value), was=said)

    @staticmethod
    def _name_of_default(arguments: ast.arguments, default: ast.expr) -> str:
        placed = [*arguments.posonlyargs, *arguments.args]
        named = dict(zip(map(id, arguments.defaults), placed[len(placed) - len(arguments.defaults) :], strict=True))
        named |= {id(value): name for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
        return named[id(default)].arg

    def _is_guard_of(self, node: ast.stmt) -> bool:
        parent = self._parents[node]
        return isinstance(parent, ast.If) and len(parent.body) == 1 and not parent.orelse and parent.body[0] is node

    def _is_last(self, node: ast.stmt) -> bool:
        """True if nothing would come after it in its loop (`break`: never) or function anyway."""
        if isinstance(node, ast.Break):
            return False
        child: ast.AST = node
        while True:
            parent = self._parents[child]
            for body in _bodies(parent):
                if child in body and body[-1] is not child:
                    return False
            if isinstance(parent, FUNCTIONS):
                return True
            if isinstance(parent, LOOPS):
                return isinstance(node, ast.Continue)
            if isinstance(parent, ast.Try):
                return False
            child = parent

    def _handler(self, node: ast.ExceptHandler) -> None:
        kinds = node.type
        if kinds is None:
            return
        if isinstance(kinds, ast.Tuple) and len(kinds.elts) > 1:
            for kind in kinds.elts:
                left = [self._text(other) for other in kinds.elts if other is not kind]
                becomes = f"({', '.join(left)},)"
                self._add("exception not caught", kinds, becomes)
        last = node.body[-1]
        if isinstance(last, ast.Raise):
            if last.exc is None:
                self._add("exception swallowed", last, "pass", was=f"except {ast.unparse(kinds)}: raise")
        elif len(node.body) > 1 or not isinstance(last, ast.Pass):
            start, end = self._span(node.body[0])[0], self._span(last)[1]
            was = f"except {ast.unparse(kinds)}: {'; '.join(ast.unparse(line) for line in node.body)}"
            self._found.append(Site("handler dropped", self._function, was, "raise", (Edit(start, end, "raise"),)))

    # --- expressions ------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr, types: dict[str, str]) -> None:
        if isinstance(node, ast.Compare):
            self._comparison(node)
        elif isinstance(node, ast.BoolOp):
            self._sides(node)
        elif isinstance(node, ast.IfExp):
            self._choice(node)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.BinOp):
            self._arithmetic(node)
        elif isinstance(node, ast.Subscript):
            self._end(node)
        elif isinstance(node, ast.Set | ast.Tuple | ast.Dict):
            self._codes(node)
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            self._field(node, types)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for generator in node.generators:
                for test in generator.ifs:
                    if not _is_comparison(test):
                        self._add("condition negated", test, _negated(test, self._text(test)))

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end]

    def _comparison(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for number, operator in enumerate(node.ops):
            left, right = operands[number], operands[number + 1]
            for pattern, signs in (("boundary moved", BOUNDARIES), ("comparison negated", OPPOSITES)):
                sign = signs.get(type(operator))
                if sign is None:
                    continue
                start, end = self._span(left)[1], self._span(right)[0]
                between = self._source[start:end]
                becomes = self._rejoined(between, sign)
                if becomes is None:
                    continue
                said = f"{ast.unparse(left)} {sign} {ast.unparse(right)}"
                was = ast.unparse(ast.Compare(left, [operator], [right]))
                if pattern == "boundary moved" and avoids("boundary", was):
                    continue
                self._found.append(Site(pattern, self._function, was, said, (Edit(start, end, becomes),)))
            if (
                isinstance(right, ast.Constant)
                and type(right.value) is int
                and type(operator) in BOUNDARIES
                and right.value <= LARGEST_CONSTANT
            ):
                moved = str(right.value + 1)
                self._add("constant moved", right, moved, was=ast.unparse(ast.Compare(left, [operator], [right])))

    @staticmethod
    def _rejoined(between: str, sign: str) -> str | None:
        """The characters between two operands, with another operator; brackets around the operands stay."""
        for known in ("<=", ">=", "==", "!=", "not in", "is not", "<", ">", "in", "is"):
            before, found, after = between.partition(known)
            if found and not before.strip(") \n") and not after.strip("( \n"):
                return f"{before}{sign}{after}"
        return None

    def _sides(self, node: ast.BoolOp) -> None:
        word = "or" if isinstance(node.op, ast.Or) else "and"
        parent = self._parents[node]
        if isinstance(parent, ast.If) and parent.test is node and _raises(parent.body, avoided=True):
            return
        for dropped in node.values:
            left = [f"({self._text(value)})" for value in node.values if value is not dropped]
            self._add("side dropped", node, f"({f' {word} '.join(left)})", was=None)

    def _choice(self, node: ast.IfExp) -> None:
        if _is_text(node.body) or _is_text(node.orelse):
            return
        if not _is_comparison(node.test):
            self._add("condition negated", node.test, _negated(node.test, self._text(node.test)), was=ast.unparse(node))

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in SWAPPED_NAMES:
            name = node.func.id
            self._add(f"{name} swapped", node.func, SWAPPED_NAMES[name], was=ast.unparse(node))
            if name in {"min", "max"} and len(node.args) > 1:
                for kept in node.args:
                    if not isinstance(kept, ast.Starred):
                        self._add(f"{name} dropped", node, f"({self._text(kept)})")
        if isinstance(node.func, ast.Attribute) and node.func.attr in SWAPPED_METHODS and not node.keywords:
            other = SWAPPED_METHODS[node.func.attr]
            if node.func.attr != "append" or "queue" in ast.unparse(node.func).lower():
                becomes = f"{self._text(node.func.value)}.{other}"
                self._add("end swapped", node.func, becomes, was=ast.unparse(node))
        for keyword in node.keywords:
            self._flip(keyword.value)
        for argument in node.args:
            self._flip(argument)

    def _arithmetic(self, node: ast.BinOp) -> None:
        if not isinstance(node.op, ast.Add | ast.Sub):
            return
        left, right = node.left, node.right
        if isinstance(right, ast.Constant) and right.value == 1:
            self._add("off by one", node, f"({self._text(left)})")
        elif isinstance(left, ast.Constant) and left.value == 1:
            self._add("off by one", node, f"({self._text(right)})")
        elif not any(_is_text(side) or isinstance(side, ast.List | ast.Tuple) for side in (left, right)):
            if isinstance(node.op, ast.Sub):
                self._add("sign changed", node, f"({self._text(left)} + {self._text(right)})")
            else:
                self._add("term dropped", node, f"({self._text(left)})")

    def _end(self, node: ast.Subscript) -> None:
        index = node.slice
        if isinstance(index, ast.Constant) and type(index.value) is int and index.value == 0:
            if isinstance(node.ctx, ast.Load):
                self._add("end swapped", node, f"{self._text(node.value)}[-1]")
        elif ast.unparse(index) == "-1" and isinstance(node.ctx, ast.Load):
            self._add("end swapped", node, f"{self._text(node.value)}[0]")

    def _codes(self, node: ast.Set | ast.Tuple | ast.Dict) -> None:
        """A set of codes: one of them is missing; or is in another set of the module instead."""
        items = [key for key in node.keys if key is not None] if isinstance(node, ast.Dict) else node.elts
        if len(items) < LEAST_CODES or not all(map(_is_code, items)):
            return
        if isinstance(node, ast.Dict) and len(items) != len(node.values):
            return
        if isinstance(node, ast.Tuple) and not self._is_looked_up(node):
            return
        for number, item in enumerate(items):
            texts = [self._text(other) for other in items]
            if isinstance(node, ast.Dict):
                texts = [f"{text}: {self._text(value)}" for text, value in zip(texts, node.values, strict=True)]
            del texts[number]
            inner = f"{', '.join(texts)},"
            becomes = f"({inner})" if isinstance(node, ast.Tuple) else "{" + inner + "}"
            was = f"{ast.unparse(item)} in {self._owner(node)}"
            start, end = self._span(node)
            self._found.append(Site("code removed", self._function, was, "removed", (Edit(start, end, becomes),)))
            for other in self._other_sets(node):
                begin = self._span(other)[0]
                moved = Edit(begin, begin + 1, "{" + f"{self._text(item)}, ")
                edits = (Edit(start, end, becomes), moved)
                self._found.append(Site("code moved", self._function, was, f"in {self._owner(other)}", edits))

    def _owner(self, node: ast.expr) -> str:
        """The name of a module's constant; else the expression in which it stands."""
        child: ast.AST = node
        while not isinstance(child, ast.stmt):
            child = self._parents[child]
        if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            return child.targets[0].id
        parent = self._parents[node]
        return ast.unparse(parent) if isinstance(parent, ast.expr) else ast.unparse(node)

    def _is_looked_up(self, node: ast.Tuple) -> bool:
        parent = self._parents[node]
        return isinstance(parent, ast.Compare) and isinstance(parent.ops[-1], ast.In | ast.NotIn)

    def _other_sets(self, node: ast.expr) -> Iterator[ast.Set]:
        if not isinstance(node, ast.Set) or self._function:
            return
        for statement in self._tree.body:
            if isinstance(statement, ast.Assign):
                for other in ast.walk(statement.value):
                    if isinstance(other, ast.Set) and other is not node and all(map(_is_code, other.elts)):
                        yield other

    def _field(self, node: ast.Attribute | ast.Name, types: dict[str, str]) -> None:
        """A field or argument is taken for another of the same type."""
        name = ast.unparse(node)
        kind = types.get(name)
        if kind is None:
            return
        statement: ast.AST = node
        while not isinstance(statement, ast.stmt):
            statement = self._parents[statement]
        if isinstance(statement, ast.Expr | ast.AugAssign) or isinstance(self._parents[node], ast.FormattedValue):
            return
        if self._function.rpartition(".")[2] == "__init__":
            return
        for other, its in types.items():
            if its == kind and other != name and other.startswith("self.") == name.startswith("self."):
                self._add("field replaced", node, other, was=f"{name} in {_shortened(statement)}")


NUMBERS = {"int", "bool", "float"}


def _shortened(statement: ast.stmt) -> str:
    """A statement without the statements nested in it."""
    if isinstance(statement, ast.If | ast.While):
        return f"{type(statement).__name__.lower()} {ast.unparse(statement.test)}"
    if isinstance(statement, ast.For | ast.AsyncFor):
        return f"for {ast.unparse(statement.target)} in {ast.unparse(statement.iter)}"
    return ast.unparse(statement).partition("\n")[0]


def _attributes(node: ast.ClassDef) -> dict[str, str]:
    """Types of `self`'s attributes, by annotations or the values that __init__ gives them."""
    found: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[f"self.{statement.target.id}"] = ast.unparse(statement.annotation)
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            for line in ast.walk(statement):
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Attribute):
                    found[ast.unparse(line.target)] = ast.unparse(line.annotation)
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
                    for target in line.targets:
                        kind = type(line.value.value).__name__
                        if isinstance(target, ast.Attribute) and kind in NUMBERS:
                            found[ast.unparse(target)] = kind
    return {name: kind for name, kind in found.items() if kind in NUMBERS}


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    found = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    kinds = {arg.arg: ast.unparse(arg.annotation) for arg in found if arg.annotation is not None}
    return {name: kind for name, kind in kinds.items() if kind in NUMBERS}


def _is_plain_exit(node: ast.stmt) -> bool:
    return isinstance(node, ast.Continue | ast.Break) or (isinstance(node, ast.Return) and node.value is None)


def _negated(node: ast.expr, text: str) -> str:
    """The opposite of a condition."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"({text[3:].strip()})"
    return f"(not ({text}))"


def _is_comparison(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPPOSITES


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_code(node: ast.expr) -> bool:
    """An error code or a constant's name."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.isupper()


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test) or (_raises(node.body, avoided=True) and not node.orelse)
    return isinstance(node, ast.Call) and avoids("call", ast.unparse(node.func))


def _raises(body: list[ast.stmt], *, avoided: bool) -> bool:
    last = body[-1]
    if not isinstance(last, ast.Raise) or last.exc is None:
        return False
    raised = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    return avoids("raised", ast.unparse(raised)) is avoided


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        body = getattr(node, field, None)
        if isinstance(body, list):
            yield body
