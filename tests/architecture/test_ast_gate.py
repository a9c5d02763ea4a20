"""Each rule of the gate fires on its own violation and on nothing else; the real tree is clean."""

from pathlib import Path

import pytest

from tests.architecture.ast_gate import LAYERS, MAX_FILE_LINES, MAX_FUNCTION_LINES, RULES, violations

SRC = Path(__file__).parents[2] / "src"
TORCH = "import torch\n\n"
DOMAIN = "domain/planted.py"

# rule, file, text below the module docstring
PLANTED = [
    ("host-read", DOMAIN, "def f(x):\n    return x.numpy()\n"),
    ("host-read", DOMAIN, "def f(x):\n    return x.cpu()\n"),
    ("host-read", DOMAIN, "def f(x):\n    return x.item()\n"),
    ("host-read", DOMAIN, "def f(xs):\n    return [x.tolist() for x in xs]\n"),
    ("host-read", DOMAIN, "def f(x):\n    return x.nonzero()\n"),
    ("host-read", DOMAIN, "def f(x):\n    return x.to('cpu')\n"),
    ("host-read", DOMAIN, TORCH + "def f(x):\n    return torch.nonzero(x)\n"),
    ("host-read", DOMAIN, TORCH + "def f(x):\n    return torch.where(x)\n"),
    ("host-read", DOMAIN, TORCH + "READ = torch.from_numpy\n"),
    ("host-read", DOMAIN, "from torch import from_numpy as wrap\n\nWRAP = wrap\n"),
    ("host-read", DOMAIN, "def f(x):\n    return x.to(device='cpu')\n"),
    ("host-read", DOMAIN, TORCH + "def f(x):\n    return x.to(torch.device('cpu'))\n"),
    ("host-read", DOMAIN, "def f(x, m):\n    return x.masked_select(m)\n"),
    ("host-read", DOMAIN, TORCH + "torch.cuda.synchronize()\n"),
    ("known-library", DOMAIN, "import scipy\n\nX = scipy\n"),
    ("known-library", DOMAIN, "from pydantic import BaseModel\n\nX = BaseModel\n"),
    ("known-library", "application/planted.py", "import gymnasium as gym\n\nX = gym\n"),
    ("global-random", DOMAIN, "import random\n\nX = random\n"),
    ("global-random", "application/planted.py", "from secrets import token_hex\n\nX = token_hex\n"),
    ("global-random", DOMAIN, TORCH + "torch.manual_seed(1)\n"),
    ("global-random", DOMAIN, "from torch import manual_seed as start\n\nstart(1)\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.rand(2)\n"),
    ("global-random", DOMAIN, "import torch as t\n\nX = t.randn(2, generator=None)\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.randint(3, (2,))\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.randperm(2)\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.bernoulli(torch.ones(2))\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.multinomial(torch.ones(2), 1)\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.normal(0.0, 1.0, (2,))\n"),
    ("global-random", "application/planted.py", TORCH + "X = torch.ones(2).uniform_()\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.ones(2).normal_(0.0, 1.0)\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.ones(2).random_()\n"),
    ("global-random", DOMAIN, TORCH + "X = torch.ones(2).bernoulli_(0.5)\n"),
    ("global-random", DOMAIN, "from torch import nn\n\n\ndef f(w):\n    nn.init.orthogonal_(w)\n"),
    ("foreign-private", DOMAIN, "def f(x):\n    return x._y\n"),
    ("foreign-private", DOMAIN, "class A:\n    def f(self):\n        return self._a._b\n"),
    ("foreign-private", DOMAIN, "from domain.env import _step\n\nX = _step\n"),
    ("foreign-private", "adapters/rsl_rl/planted.py", "import torch\n\nX = torch._C\n"),
    ("backend-branch", "application/planted.py", "def f(name):\n    return name == 'mujoco'\n"),
    ("backend-branch", "application/planted.py", "def f(name):\n    return name in ('cpu', 'mjwarp')\n"),
    ("backend-branch", DOMAIN, "def f(name):\n    match name:\n        case 'mjwarp':\n            return 1\n"),
    ("backend-branch", "adapters/rsl_rl/planted.py", "def f(name):\n    return name.startswith('mujoco')\n"),
    ("processes", "adapters/mujoco/planted.py", "import multiprocessing\n\nX = multiprocessing\n"),
    ("processes", "application/planted.py", "import torch.multiprocessing as mp\n\nX = mp.Process\n"),
    ("processes", "entrypoints/planted.py", "from torch import multiprocessing\n"),
    ("processes", "entrypoints/planted.py", TORCH + "X = torch.multiprocessing.Process\n"),
    ("hidden-import", DOMAIN, "X = __import__('numpy')\n"),
    ("hidden-import", DOMAIN, TORCH + "X = getattr(torch, 'distributed')\n"),
    ("safe-load", "adapters/planted.py", TORCH + "def f(path):\n    return torch.load(path, weights_only=False)\n"),
    ("init-docstring-only", "domain/planted/__init__.py", "X = 1\n"),
    ("module-name", "domain/utils.py", ""),
    ("module-name", "application/tasks/reward_helpers.py", ""),
    ("module-name", "domain/common/__init__.py", ""),
    ("file-size", DOMAIN, "X = 1\n" * MAX_FILE_LINES),
    ("function-size", DOMAIN, "def f(x):\n" + "    x += 1\n" * MAX_FUNCTION_LINES),
    ("no-assert", "adapters/planted.py", "def f(x):\n    assert x\n"),
]

ALLOWED = [
    (DOMAIN, "class A:\n    def __init__(self, x):\n        self._x = x\n        super().__init__()\n"),
    (DOMAIN, "class A:\n    _known = 1\n\n\nX = A._known\n"),
    (DOMAIN, "def f(row):\n    return row._replace(x=1), row.__class__\n"),
    (DOMAIN, TORCH + "def f(xs):\n    torch._foreach_lerp_(xs, xs, 0.5)\n"),
    (DOMAIN, TORCH + "def f(g):\n    g.manual_seed(1)\n    return torch.rand(2, generator=g).uniform_(generator=g)\n"),
    (DOMAIN, TORCH + "def f(m, a, b):\n    return torch.where(m, a, b)\n"),
    ("adapters/metrics/planted.py", "def f(x):\n    return x.cpu().tolist()\n"),
    ("adapters/rsl_rl/planted.py", TORCH + "torch.manual_seed(1)\n"),
    ("adapters/mujoco/planted.py", "def f(name):\n    return name == 'mujoco'\n"),
    ("entrypoints/planted.py", "def f(name):\n    return name == 'mjwarp'\n"),
    ("application/planted.py", "BACKENDS = ('mujoco', 'mjwarp')\n"),
    ("adapters/collector/planted.py", "import torch.multiprocessing as mp\n\nX = mp\n"),
    ("adapters/planted.py", TORCH + "def f(path):\n    return torch.load(path, weights_only=True)\n"),
    (DOMAIN, "X = 1\n" * (MAX_FILE_LINES - 1)),
    (DOMAIN, "def f(x):\n" + "    x += 1\n" * (MAX_FUNCTION_LINES - 1)),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for layer in LAYERS:
        _write(tmp_path, f"{layer}/__init__.py", "")
    return tmp_path


def _write(tree: Path, path: str, body: str) -> None:
    """Write a module with a docstring, and the packages above it."""
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in file.relative_to(tree).parents[:-1]:
        init = tree / folder / "__init__.py"
        if not init.exists():
            init.write_text('"""A room."""\n')
    file.write_text(f'"""Planted."""\n{body}')


def _fired(tree: Path) -> set[str]:
    return {violation.rule for violation in violations(tree)}


@pytest.mark.parametrize(("rule", "path", "body"), PLANTED)
def test_planted_violation_fires_its_rule_and_no_other(tree: Path, rule: str, path: str, body: str) -> None:
    _write(tree, path, body)

    assert _fired(tree) == {rule}


@pytest.mark.parametrize(("path", "body"), ALLOWED)
def test_allowed_code_fires_nothing(tree: Path, path: str, body: str) -> None:
    _write(tree, path, body)

    assert _fired(tree) == set()


def test_a_fifth_folder_under_src_fires(tree: Path) -> None:
    _write(tree, "plugins/__init__.py", "")

    assert _fired(tree) == {"four-packages"}


def test_a_loose_file_under_src_fires(tree: Path) -> None:
    (tree / "train.py").write_text('"""Planted."""\n')

    assert _fired(tree) == {"four-packages"}


def test_a_folder_without_init_fires(tree: Path) -> None:
    _write(tree, "domain/mdp/rewards.py", "")
    (tree / "domain/mdp/__init__.py").unlink()

    assert _fired(tree) == {"package"}


@pytest.mark.parametrize("name", ["planted.py", "planted/__init__.py"])
def test_a_module_without_docstring_fires(tree: Path, name: str) -> None:
    _write(tree, f"domain/{name}", "")
    (tree / "domain" / name).write_text("")

    assert _fired(tree) == {"docstring"}


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _, _ in PLANTED} | {"docstring"} == set(RULES)


def test_a_violation_names_file_line_and_rule(tree: Path) -> None:
    _write(tree, "domain/planted.py", "\n\ndef f(x):\n    assert x\n")

    assert str(violations(tree)[0]).startswith("domain/planted.py:5: no-assert: ")


def test_src_is_clean() -> None:
    assert "\n".join(map(str, violations(SRC))) == ""
