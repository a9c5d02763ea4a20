"""Settings of training and of each algorithm, checked by pydantic; strict, no unknown keys."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Settings(BaseModel):
    """Base of all settings: numbers in quotes and unknown keys are refused, values are fixed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TrainSettings(Settings):
    """How a run goes on, whatever the algorithm."""

    num_envs: Annotated[int, Field(gt=0, le=1 << 20)]
    iterations: PositiveInt
    """Rollouts and updates; off-policy, env steps of all environments and the updates after each."""
    seed: Annotated[int, Field(ge=0)] = 1
    save_interval: PositiveInt = 50
    """Iterations between two checkpoints; the last iteration is always saved."""
    cpu_ids: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """CPUs for physics threads; None takes the process's own affinity."""


class SceneSettings(Settings):
    """What a task's scene is made of beside its declaration; every value may be absent in a saved configuration."""

    motions: tuple[str, ...] = ()
    """Reference motions: files, or ``builtin:NAME``."""
    mesh_dir: str | None = None
    """Folder of the vendor's meshes, for pictures only."""
    max_contacts: PositiveInt | None = None
    """Contacts of an environment, on average, that a simulator with buffers of fixed size keeps."""
    max_constraints: PositiveInt | None = None
    """Constraint rows of an environment that it keeps. None for both: a short probe run chooses them."""
    strict_buffers: bool = False
    """Whether a buffer that was too small ends training, instead of a warning."""

    @model_validator(mode="after")
    def _both_or_none(self) -> "SceneSettings":
        if (self.max_contacts is None) != (self.max_constraints is None):
            raise ValueError("give scene.max_contacts and scene.max_constraints together, or neither")
        return self


class RuntimeSettings(Settings):
    """How off-policy training runs on this machine; it changes no more of what is learnt than rounding.

    ``precision``, ``compile``, ``graph`` and ``fused_kernels`` are for CUDA devices; others run plain Torch in float32.
    """

    start_timeout_s: PositiveFloat = 180.0
    """How long the collector process may take until its environment is built and reset."""
    tick_timeout_s: PositiveFloat = 60.0
    """How long one side waits for the other in a tick, before training ends with an error."""
    log_interval: PositiveInt = 20
    """Iterations between two reports."""
    trace: bool = True
    """Whether the phases of each tick are recorded, so that their order can be checked."""
    checksums: bool = False
    """Whether each chunk carries a checksum that is compared on arrival; for finding faults."""
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the networks' arithmetic in updates; parameters, returns and distributions are always float32."""
    compile: bool = False
    """Whether Torch compiles the losses: updates that may be faster, after minutes of waiting."""
    graph: bool = True
    """Whether a cycle of updates is captured once and replayed."""
    fused_kernels: bool = True
    """Whether costly operations run as Triton kernels."""


class PpoSettings(Settings):
    """PPO as in RSL-RL 5.5.1; defaults from the public unilab 1.5.2 owner configuration.

    ``gamma`` and ``lam`` are per control step, ``learning_rate`` is Adam's, adapted to ``desired_kl``
    where ``schedule`` is adaptive.
    """

    rollout_steps: PositiveInt = 24
    actor_hidden: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (512, 256, 128)
    critic_hidden: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (512, 256, 128)
    activation: Literal["elu", "relu", "selu", "tanh", "silu"] = "elu"
    init_std: PositiveFloat = 1.0
    obs_normalization: bool = False
    learning_rate: PositiveFloat = 1e-3
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    desired_kl: PositiveFloat = 0.01
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.99
    lam: Share = 0.95
    clip_param: PositiveFloat = 0.2
    clip_value_loss: bool = True
    value_loss_coef: NonNegativeFloat = 1.0
    entropy_coef: NonNegativeFloat = 0.01
    epochs: PositiveInt = 5
    mini_batches: PositiveInt = 4
    max_grad_norm: PositiveFloat = 1.0
