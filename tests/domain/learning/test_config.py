"""Settings of the learners: published defaults, and a refusal of whatever cannot work."""

import dataclasses
import math
from typing import Any

import pytest

from domain.errors import ConfigurationError
from domain.learning.config import ExecutionCfg, FlashSacCfg, OffPolicyCfg, SacCfg, Td3Cfg

ALL = (SacCfg, Td3Cfg, FlashSacCfg)

DEFAULTS: dict[type[OffPolicyCfg], dict[str, object]] = {
    SacCfg: {
        "batch_size": 8192,
        "updates_per_step": 4,
        "policy_frequency": 4,
        "gamma": 0.97,
        "tau": 0.125,
        "n_step": 1,
        "replay_rows": 2_097_152,
        "learning_start_rows": 8192,
        "max_grad_norm": 0.0,
        "atoms": 101,
        "v_min": -20.0,
        "v_max": 20.0,
        "obs_normalization": False,
        "actor_hidden": (512, 256, 128),
        "critic_hidden": (768, 384, 192),
        "actor_lr": 3e-4,
        "critic_lr": 3e-4,
        "alpha_lr": 3e-4,
        "beta1": 0.9,
        "beta2": 0.95,
        "weight_decay": 1e-3,
        "alpha_init": 0.01,
        "target_entropy_ratio": 0.0,
        "log_std_min": -5.0,
        "log_std_max": 0.0,
    },
    Td3Cfg: {
        "batch_size": 8192,
        "updates_per_step": 4,
        "policy_frequency": 2,
        "gamma": 0.97,
        "tau": 0.1,
        "n_step": 1,
        "replay_rows": 4_096_000,
        "learning_start_rows": 8192,
        "max_grad_norm": 10.0,
        "atoms": 101,
        "v_min": -10.0,
        "v_max": 10.0,
        "obs_normalization": True,
        "actor_hidden": (512, 256, 128),
        "critic_hidden": (1024, 512, 256),
        "actor_lr": 3e-4,
        "critic_lr": 3e-4,
        "weight_decay": 0.1,
        "sigma_min": pytest.approx(0.201897, abs=1e-6),
        "sigma_max": pytest.approx(0.802519, abs=1e-6),
        "policy_noise": 0.2,
        "noise_clip": 0.5,
        "clipped_double_q": True,
    },
    FlashSacCfg: {
        "batch_size": 2048,
        "updates_per_step": 2,
        "policy_frequency": 2,
        "gamma": 0.97,
        "tau": 0.01,
        "n_step": 1,
        "replay_rows": 524_288,
        "learning_start_rows": 100_352,
        "max_grad_norm": 0.0,
        "atoms": 101,
        "v_min": -5.0,
        "v_max": 5.0,
        "obs_normalization": False,
        "actor_width": 128,
        "critic_width": 256,
        "blocks": 2,
        "expansion": 4,
        "lr_init": 3e-4,
        "lr_end": 1.5e-4,
        "lr_horizon": 500_000,
        "alpha_init": 0.01,
        "target_sigma": 0.15,
        "log_std_min": -10.0,
        "log_std_max": 2.0,
        "noise_exponent": 2.0,
        "noise_max_repeat": 16,
        "max_return": 5.0,
        "policy_before_critic": False,
    },
}

# Of every learner: a field and a value that cannot work, with what the error says after the field's name.
SHARED: list[tuple[str, object, str]] = [
    *[
        (name, 0, r"is 0, outside \[1, inf\): give at least 1")
        for name in ("batch_size", "updates_per_step", "policy_frequency", "n_step", "learning_start_rows")
    ],
    ("replay_rows", 0, r"is 0, outside \[1, inf\)"),
    ("batch_size", -1, r"is -1, outside \[1, inf\)"),
    ("batch_size", 8192.0, "is 8192.0: give a whole number"),
    ("batch_size", True, "is True: give a whole number"),
    ("gamma", 0, r"is 0, outside \(0, 1\]: give the discount"),
    ("gamma", 1.01, r"is 1.01, outside \(0, 1\]"),
    ("gamma", math.nan, r"is nan, outside \(0, 1\]"),
    ("gamma", "0.99", "is '0.99': give a number"),
    ("tau", 0, r"is 0, outside \(0, 1\]: give the share that the target moves"),
    ("tau", 1.5, r"is 1.5, outside \(0, 1\]"),
    ("tau", True, "is True: give a number"),
    ("max_grad_norm", -1.0, r"is -1.0, outside \[0, inf\): give 0 for none"),
    ("max_grad_norm", math.inf, r"is inf, outside \[0, inf\)"),
    ("atoms", 1, r"is 1, outside \[2, inf\): a distribution needs an atom at each end"),
    ("v_min", -math.inf, "is -inf, outside .*: give a finite number"),
    ("v_max", math.nan, "is nan, outside .*: give a finite number"),
    ("obs_normalization", 1, "is 1: give true or false"),
]
LAYERS: list[tuple[str, object, str]] = [
    case
    for name in ("actor_hidden", "critic_hidden")
    for case in (
        (name, (), r"is \(\): give at least one whole number"),
        (name, (512, 0), r"is 0, outside \[1, inf\): give each hidden layer at least 1 unit"),
        (name, (512, 2.5), r"is \(512, 2.5\): give at least one whole number"),
        (name, [512], r"is \[512\]: give at least one whole number"),
        (name, 512, "is 512: give at least one whole number"),
    )
]


def _rates(*names: str) -> list[tuple[str, object, str]]:
    bad = (0, -3e-4, math.nan, math.inf)
    return [(name, value, rf"is {value}, outside \(0, inf\): give a learning rate") for name in names for value in bad]


def _not(interval: str, **values: float) -> list[tuple[str, object, str]]:
    return [(name, value, rf"is {value}, outside {interval}") for name, value in values.items()]


OWN: dict[type[OffPolicyCfg], list[tuple[str, object, str]]] = {
    SacCfg: [
        *LAYERS,
        *_rates("actor_lr", "critic_lr", "alpha_lr"),
        *_not(r"\(0, 1\): give the share that a moment keeps", beta1=1.0, beta2=1.0),
        *_not(r"\(0, 1\)", beta1=0.0, beta2=math.nan),
        *_not(r"\[0, inf\): give 0 for none", weight_decay=-0.1),
        *_not(r"\(0, inf\): give a finite number above 0", alpha_init=0.0),
        *_not(".*: give a finite number", target_entropy_ratio=math.nan, log_std_min=math.nan, log_std_max=math.inf),
    ],
    Td3Cfg: [
        *LAYERS,
        *_rates("actor_lr", "critic_lr"),
        *_not(r"\[0, inf\)", weight_decay=-0.1, sigma_min=-0.1, sigma_max=-0.1, policy_noise=-0.1, noise_clip=-0.1),
        *_not(r"\[0, inf\)", sigma_max=math.inf, noise_clip=math.nan),
        ("clipped_double_q", "yes", "is 'yes': give true or false"),
    ],
    FlashSacCfg: [
        *_rates("lr_init", "lr_end"),
        *_not(r"\[1, inf\)", actor_width=0, critic_width=0, blocks=0, expansion=0, lr_horizon=0, noise_max_repeat=0),
        *_not(r"\(0, inf\)", alpha_init=0.0, target_sigma=0.0, noise_exponent=0.0, max_return=0.0),
        *_not(r"\(0, inf\)", alpha_init=-1.0, target_sigma=math.nan, noise_exponent=math.inf, max_return=-5.0),
        *_not(".*: give a finite number", log_std_min=-math.inf, log_std_max=math.nan),
        ("policy_before_critic", 0, "is 0: give true or false"),
        ("obs_normalization", True, "is true, but the networks normalise their input: set it to false"),
    ],
}
REFUSED = [(cfg, *case) for cfg in ALL for case in (*SHARED, *OWN[cfg])]

Crossed = tuple[type[OffPolicyCfg], dict[str, object], str]


def _crossed(cfg: type[OffPolicyCfg]) -> list[Crossed]:
    """Fields of any learner that are possible alone but not together."""
    few: dict[str, object] = {"replay_rows": 100}
    rows, top = rf"{cfg.kind}.replay_rows \(100\)", rf"{cfg.kind}.v_max \(1.0\)"
    return [
        (cfg, {**few, "batch_size": 101, "learning_start_rows": 1}, f"batch_size is 101, above {rows}: lower it"),
        (
            cfg,
            {**few, "batch_size": 1, "learning_start_rows": 101},
            f"is 101, above {rows}: learning would never start",
        ),
        (cfg, {"v_min": 1.0, "v_max": 1.0}, f"{cfg.kind}.v_min is 1.0, not below {top}: give the lower end first"),
        (cfg, {"v_min": 2.0, "v_max": 1.0}, f"{cfg.kind}.v_min is 2.0, not below {top}: give the lower end first"),
    ]


CROSSED: list[Crossed] = [
    *[case for cfg in ALL for case in _crossed(cfg)],
    (SacCfg, {"log_std_min": 0.0}, r"sac.log_std_min is 0.0, not below sac.log_std_max \(0.0\): give the lower"),
    (FlashSacCfg, {"log_std_min": 3.0}, r"flashsac.log_std_min is 3.0, not below flashsac.log_std_max \(2.0\)"),
    (
        Td3Cfg,
        {"sigma_min": 0.5, "sigma_max": 0.4},
        r"td3.sigma_min is 0.5, above td3.sigma_max \(0.4\): give the lower",
    ),
]


def _make(cfg: type[Any], **values: object) -> object:
    return cfg(**values)


@pytest.mark.parametrize("cfg", ALL)
def test_defaults_are_the_published_ones(cfg: type[OffPolicyCfg]) -> None:
    assert {field.name: getattr(_make(cfg), field.name) for field in dataclasses.fields(cfg)} == DEFAULTS[cfg]


@pytest.mark.parametrize(("cfg", "field", "value", "says"), REFUSED)
def test_an_impossible_value_is_refused_by_name(cfg: type[OffPolicyCfg], field: str, value: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{cfg.kind}.{field} {says}"):
        _make(cfg, **{field: value})


@pytest.mark.parametrize("cfg", ALL)
def test_every_field_has_a_refusal(cfg: type[OffPolicyCfg]) -> None:
    assert {field for of, field, _, _ in REFUSED if of is cfg} == set(DEFAULTS[cfg])


@pytest.mark.parametrize(("cfg", "values", "says"), CROSSED)
def test_fields_that_contradict_each_other_are_refused(
    cfg: type[OffPolicyCfg], values: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        _make(cfg, **values)


@pytest.mark.parametrize("cfg", ALL)
def test_the_ends_that_belong_to_an_interval_pass(cfg: type[OffPolicyCfg]) -> None:
    _make(cfg, tau=1, gamma=1, max_grad_norm=0, atoms=2, batch_size=1, learning_start_rows=1, replay_rows=1)


def test_exploration_of_one_size_passes() -> None:
    Td3Cfg(sigma_min=0.25, sigma_max=0.25)


def test_a_rate_may_rise() -> None:
    FlashSacCfg(lr_init=1e-4, lr_end=2e-4)


def test_a_value_is_fixed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SacCfg().tau = 0.5  # type: ignore[misc]


def test_execution_is_plain_by_default() -> None:
    assert ExecutionCfg() == ExecutionCfg(graph=False, compile=False, precision="float32")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("graph", 1, "execution.graph is 1: give true or false"),
        ("compile", "on", "execution.compile is 'on': give true or false"),
        ("precision", "float16", r"execution.precision: unknown choice 'float16'.*known: bfloat16, float32"),
    ],
)
def test_an_impossible_execution_is_refused(field: str, value: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        _make(ExecutionCfg, **{field: value})
