"""What no import shows: rules over the syntax trees of everything under ``src``.

Pure functions: ``violations`` reads a folder and returns what breaks a rule. Import contracts live in
``.importlinter``, banned names inside a library in ruff's configuration. Names are resolved through the imports of
their own module, so an alias hides nothing.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LAYERS = ("adapters", "application", "domain", "entrypoints")
BACKENDS = frozenset({"mujoco", "mjwarp"})
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# What the inner layers may import beside the standard library and what lies further in.
LIBRARIES = {"domain": frozenset({"torch"}), "application": frozenset({"torch", "pydantic"})}

# Each of these hands a device value to Python, so the step stops until the device has caught up.
HOST_READS = frozenset(
    {"numpy", "from_numpy", "cpu", "item", "tolist", "nonzero", "argwhere", "masked_select", "unique"}
    | {"repeat_interleave", "bincount", "synchronize"}
)

TORCH_DRAWS = frozenset({"rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal", "poisson"})
LIKE_DRAWS = frozenset({"rand_like", "randn_like", "randint_like"})
IN_PLACE_DRAWS = frozenset({"uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_"})
INIT_DRAWS = frozenset({"trunc_normal_", "orthogonal_", "log_normal_"}) | {
    f"{scheme}_{law}_" for scheme in ("xavier", "kaiming") for law in ("uniform", "normal")
}
GLOBAL_GENERATOR = frozenset(
    {"manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed", "default_generator", "get_rng_state"}
    | {"set_rng_state", "fork_rng"}
)

# Documented, although they start with an underscore.
PUBLIC_UNDERSCORES = frozenset({"_replace", "_asdict", "_fields", "_make"})
# Torch documents no public spelling of its fused list operations.
TORCH_LIST_OPERATIONS = "torch._foreach_"

FORBIDDEN_STEMS = frozenset({"utils", "util", "helpers", "helper", "common", "base", "misc"})
FORBIDDEN_ENDINGS = ("_utils", "_util", "_helpers", "_helper", "_misc")


@dataclass(frozen=True, slots=True)
class Violation:
    """One place that breaks one rule."""

    rule: str
    path: str  # below the folder that was read
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed file and where it lives."""

    path: Path  # below src
    text: str
    tree: ast.Module
    names: dict[str, str]  # a name bound by an import -> what it stands for
    own: frozenset[str]  # classes of this file

    @property
    def layer(self) -> str:
        """The top folder."""
        return self.path.parts[0]

    def dotted(self, node: ast.expr) -> str:
        """Return ``torch.nn.init`` for a chain of names that starts at an import, else an empty string."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        if isinstance(node, ast.Attribute):
            left = self.dotted(node.value)
            return f"{left}.{node.attr}" if left else ""
        return ""


Finding = tuple[int, str]
Rule = Callable[[Module], Iterator[Finding]]


def violations(src: Path) -> list[Violation]:
    """Return every violation under ``src``, sorted by place."""
    found = list(_house(src))
    for file in sorted(src.rglob("*.py")):
        module = _read(src, file)
        for rule, check in RULES.items():
            found += [Violation(rule, module.path.as_posix(), line, what) for line, what in check(module)]
    return sorted(found, key=lambda v: (v.path, v.line, v.rule))


def _read(src: Path, file: Path) -> Module:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(file))
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    own = frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return Module(file.relative_to(src), text, tree, names, own)


def _house(src: Path) -> Iterator[Violation]:
    """Four packages and nothing beside them; every folder with code is a package."""
    for entry in sorted(src.iterdir()):
        hidden = entry.name.startswith((".", "__")) or entry.name.endswith(".egg-info")
        if not hidden and not (entry.is_dir() and entry.name in LAYERS):
            yield Violation("four-packages", entry.name, 1, f"only {', '.join(LAYERS)} live under src")
    for folder in sorted({file.parent for file in src.rglob("*.py")} - {src}):
        if not (folder / "__init__.py").is_file():
            path = folder.relative_to(src).as_posix()
            yield Violation("package", path, 1, "no __init__.py, so import contracts do not see this folder")


def host_read(module: Module) -> Iterator[Finding]:
    """Domain code stays on the device: no value of a tensor reaches Python."""
    if module.layer != "domain":
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in HOST_READS:
            yield node.lineno, f".{node.attr} reads device data on the host: keep a tensor, choose rows by a mask"
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            for alias in node.names:
                if alias.name in HOST_READS:
                    yield node.lineno, f"torch.{alias.name} reads device data on the host"
        elif isinstance(node, ast.Call):
            if module.dotted(node.func) == "torch.where" and len(node.args) + len(node.keywords) == 1:
                yield node.lineno, "torch.where with one argument is nonzero: give both values"
            values = [inner for value in (*node.args, *(k.value for k in node.keywords)) for inner in ast.walk(value)]
            constants = [inner for inner in values if isinstance(inner, ast.Constant)]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and "cpu" in _strings(*constants):
                yield node.lineno, '.to("cpu") reads device data on the host'


def known_library(module: Module) -> Iterator[Finding]:
    """The inner layers import an allow-list: a library that no contract names yet is refused too."""
    if module.layer not in LIBRARIES:
        return
    # Layers are the import contracts' business.
    known = LIBRARIES[module.layer] | sys.stdlib_module_names | frozenset(LAYERS)
    for line, name in _imports(module):
        top = name.split(".")[0]
        if top not in known:
            yield line, f"{module.layer} knows {', '.join(sorted(LIBRARIES[module.layer]))}: put {top} behind a port"


def global_random(module: Module) -> Iterator[Finding]:
    """Every random number of domain and application comes from a generator that a run's seed names."""
    if module.layer not in {"domain", "application"}:
        return
    for line, name in _imports(module):
        if name.split(".")[0] in {"random", "secrets"}:
            yield line, f"{name}: take numbers from TorchManagerRng or a named torch.Generator"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and not _has_generator(node) and _draws(module, node.func):
            yield node.lineno, "draws from Torch's global generator: pass generator="
        elif isinstance(node, ast.Name | ast.Attribute) and _is_global_generator(module.dotted(node)):
            yield node.lineno, f"{module.dotted(node)} is Torch's global generator: make a torch.Generator"


def _draws(module: Module, func: ast.expr) -> bool:
    name = module.dotted(func)
    last = func.attr if isinstance(func, ast.Attribute) else name.rpartition(".")[2]
    if name and name in {f"torch.{draw}" for draw in TORCH_DRAWS | LIKE_DRAWS}:
        return True
    return last in IN_PLACE_DRAWS | INIT_DRAWS and (isinstance(func, ast.Attribute) or name.startswith("torch."))


def _has_generator(call: ast.Call) -> bool:
    return any(
        keyword.arg == "generator" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
        for keyword in call.keywords
    )


def _is_global_generator(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return owner in {"torch", "torch.random", "torch.cuda", "torch.mps"} and last in GLOBAL_GENERATOR


def foreign_private(module: Module) -> Iterator[Finding]:
    """A leading underscore belongs to its own object, class or module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _owns(module, node):
            yield node.lineno, f".{node.attr} is private to another object: ask for a public name"
        elif isinstance(node, ast.ImportFrom):
            for part in [*(node.module or "").split("."), *(alias.name for alias in node.names)]:
                if _is_private(part):
                    yield node.lineno, f"{part} is private to another module: ask for a public name"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_UNDERSCORES


def _owns(module: Module, node: ast.Attribute) -> bool:
    if module.dotted(node).startswith(TORCH_LIST_OPERATIONS):
        return True
    if isinstance(node.value, ast.Name):
        return node.value.id in {"self", "cls"} | module.own
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"


def backend_branch(module: Module) -> Iterator[Finding]:
    """Only entry points and the backend's own folder know a backend by its name."""
    if module.layer == "entrypoints" or module.path.parts[:2] in {("adapters", name) for name in BACKENDS}:
        return
    for node in ast.walk(module.tree):
        tested: tuple[ast.expr, ...] = ()
        if isinstance(node, ast.Compare):
            tested = (node.left, *node.comparators)
        elif isinstance(node, ast.MatchValue):
            tested = (node.value,)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            tested = tuple(node.args)
        for name in sorted(_strings(*tested) & BACKENDS):
            line = tested[0].lineno
            yield line, f"a branch on the backend's name '{name}': add a capability to the physics port"


def processes(module: Module) -> Iterator[Finding]:
    """Processes are started in one place."""
    if module.path.parts[:2] == ("adapters", "collector"):
        return
    for line, name in _imports(module):
        if name.split(".")[0] == "multiprocessing" or f"{name}.".startswith("torch.multiprocessing."):
            yield line, f"{name}: only adapters/collector starts processes"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and module.dotted(node) == "torch.multiprocessing":
            yield node.lineno, "torch.multiprocessing: only adapters/collector starts processes"


def hidden_import(module: Module) -> Iterator[Finding]:
    """An import that contracts, types and readers cannot see."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"__import__", "exec", "eval"}:
                yield node.lineno, f"{node.func.id}: import and call statically"
            elif node.func.id == "getattr" and node.args and module.dotted(node.args[0]):
                yield node.lineno, f"getattr on the import {module.dotted(node.args[0])}: write the name"


def safe_load(module: Module) -> Iterator[Finding]:
    """A checkpoint may come from anyone, and a pickle runs code."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and module.dotted(node.func) == "torch.load":
            safe = [k for k in node.keywords if k.arg == "weights_only" and getattr(k.value, "value", None) is True]
            if not safe:
                yield node.lineno, "torch.load: pass weights_only=True"


def init_docstring_only(module: Module) -> Iterator[Finding]:
    """A room's door says who lives there and nothing else."""
    if module.path.name == "__init__.py":
        rest = module.tree.body[1:] if ast.get_docstring(module.tree) else module.tree.body
        for node in rest[:1]:
            yield node.lineno, "an __init__.py holds a docstring and nothing else"


def docstring(module: Module) -> Iterator[Finding]:
    """Every file says in its first lines what it holds."""
    if not ast.get_docstring(module.tree) and not (module.path.name == "__init__.py" and module.tree.body):
        yield 1, "no module docstring"


def name_of_module(module: Module) -> Iterator[Finding]:
    """A file or folder is named for what it holds."""
    stem = module.path.parent.name if module.path.name == "__init__.py" else module.path.stem
    if stem in FORBIDDEN_STEMS or stem.endswith(FORBIDDEN_ENDINGS):
        yield 1, f"'{stem}' says nothing: name the file for what it holds"


def file_size(module: Module) -> Iterator[Finding]:
    """A file that one can read."""
    lines = len(module.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield 1, f"{lines} lines, above {MAX_FILE_LINES}: one idea a file"


def function_size(module: Module) -> Iterator[Finding]:
    """A function that one can read."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {lines} lines, above {MAX_FUNCTION_LINES}: name its steps"


def no_assert(module: Module) -> Iterator[Finding]:
    """A check that ``python -O`` removes is no check."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assert):
            yield node.lineno, "assert is for tests: raise an error of domain.errors"


def _imports(module: Module) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _strings(*nodes: ast.expr) -> frozenset[str]:
    """Return the string constants among expressions, also inside tuples, lists and sets."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            found |= _strings(*node.elts)
    return frozenset(found)


RULES: dict[str, Rule] = {
    "host-read": host_read,
    "known-library": known_library,
    "global-random": global_random,
    "foreign-private": foreign_private,
    "backend-branch": backend_branch,
    "processes": processes,
    "hidden-import": hidden_import,
    "safe-load": safe_load,
    "init-docstring-only": init_docstring_only,
    "docstring": docstring,
    "module-name": name_of_module,
    "file-size": file_size,
    "function-size": function_size,
    "no-assert": no_assert,
}
