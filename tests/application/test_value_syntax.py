"""What the value side of ``--set`` means."""

import pytest

from application.value_syntax import parse_value
from domain.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("2.", 2.0),
        ("true", True),
        ("null", None),
        ("yes", "yes"),
        ("tanh", "tanh"),
        ("'1'", "1"),
        ('"a, b"', "a, b"),
        ("left leg", "left leg"),
        ("[]", []),
        ("[1, -2.5]", [1, -2.5]),
        ("[1, 2,]", [1, 2]),
        ("[[0, 1], [2, 3]]", [[0, 1], [2, 3]]),
        ("['.*_hip', knee]", [".*_hip", "knee"]),
        ("{kind: uniform, low: -0.1}", {"kind": "uniform", "low": -0.1}),
        ("{'a b': [1], c: {d: null}}", {"a b": [1], "c": {"d": None}}),
        ("0x10", "0x10"),
        ("nan", "nan"),
    ],
)
def test_a_value_is_read(text: str, value: object) -> None:
    found = parse_value(text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["", "  ", "[1", "{a: 1", "{a}", "'a", "[1] 2", "[1 [2]]", "{a: 1, a: 2}", "[,]"])
def test_half_a_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_value(text)
