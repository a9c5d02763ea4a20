"""The only source of random numbers of an environment.

A term reserves columns at construction; every step fills one block ``(num_envs, width)``. So the
numbers of a row never depend on which other rows reset, and the generator's position depends on the
number of blocks alone.
"""

import hashlib
import math

import torch
from torch import Tensor

from domain.errors import ConfigurationError, DataError
from domain.managers.state import check_fits

# The extreme values that keep the inverse error function finite in float32.
_TINY = 2.0**-25
_SQRT2 = math.sqrt(2.0)


def derive_seed(seed: int, stream: str) -> int:
    """Return the 63-bit seed of a named stream (``manager``, ``learner``, ``replay``, ``init``) of a run."""
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class Draw:
    """The columns of the current block that one term owns."""

    def __init__(self, rng: "TorchManagerRng", start: int, width: int) -> None:
        self._rng = rng
        self._columns = slice(start, start + width)

    def uniform(self) -> Tensor:
        """Return this block's numbers, (num_envs, width), in [0, 1)."""
        return self._rng.block[:, self._columns]

    def between(self, low: Tensor | float, high: Tensor | float) -> Tensor:
        """Return (num_envs, width) numbers uniform in [low, high); bounds broadcast over columns."""
        if isinstance(low, Tensor) and isinstance(high, Tensor):
            return torch.addcmul(low, self.uniform(), high - low)
        return self.uniform() * (high - low) + low

    def normal(self) -> Tensor:
        """Return (num_envs, width) standard normal numbers (inverse error function of the uniform ones)."""
        return torch.erfinv(self.uniform().clamp(min=_TINY) * 2.0 - 1.0) * _SQRT2


class TorchManagerRng:
    """One seeded generator and the block of numbers that the terms of an environment share.

    Args:
        seed: Non-negative; equal seeds give equal blocks.
        num_envs: Rows of a block.
        device: Where blocks live; must be the environment's device.

    Raises:
        ConfigurationError: A negative seed.
    """

    def __init__(self, seed: int, num_envs: int, device: torch.device) -> None:
        if seed < 0:
            raise ConfigurationError(f"seed is {seed}: give a whole number that is not negative")
        self.num_envs = num_envs
        self.device = device
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(derive_seed(seed, "manager"))
        self._width = 0
        self._frozen = False
        self.block = torch.zeros(num_envs, 0, device=device)

    def reserve(self, width: int) -> Draw:
        """Reserve ``width`` columns for a term.

        Raises:
            ConfigurationError: The block is frozen already: numbers are declared at construction.
        """
        if self._frozen:
            raise ConfigurationError("random columns are reserved while terms are constructed, not later")
        draw = Draw(self, self._width, width)
        self._width += width
        return draw

    def freeze(self) -> None:
        """Allocate the block once every term has reserved its columns."""
        self._frozen = True
        self.block = torch.zeros(self.num_envs, self._width, device=self.device)

    def advance(self) -> None:
        """Fill the block with the next numbers; its storage stays."""
        self.block.uniform_(generator=self.generator)

    def seed(self, seed: int) -> None:
        """Start the same generator anew, as if the environment had been built with this seed."""
        if seed < 0:
            raise ConfigurationError(f"seed is {seed}: give a whole number that is not negative")
        self.generator.manual_seed(derive_seed(seed, "manager"))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the generator's state and the current block."""
        return {"generator": self.generator.get_state(), "block": self.block.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue exactly where ``state_dict`` was taken. Raises DataError where the state does not fit."""
        check_fits(state, self.state_dict())
        try:
            self.generator.set_state(state["generator"])
        except (RuntimeError, TypeError) as error:
            raise DataError(f"the saved generator state is damaged: {error}") from error
        self.block.copy_(state["block"])
