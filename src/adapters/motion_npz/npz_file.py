"""NPZ files without pickles: every array is checked on its way in, and a file on its way out is never half there."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from application.motion.ports import MotionArrays
from domain.errors import DataError

_Array = npt.NDArray[np.generic]
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, NotImplementedError, RuntimeError)
"""What a cut or changed zip raises, by the place of the damage."""


_ZIP = b"PK\x03\x04"
"""How a zip file begins."""


def read_npz(path: Path) -> MotionArrays:
    """Return all arrays of an NPZ: numbers as float64 tensors, lists of text as tuples.

    Raises:
        DataError: The file is missing, no NPZ or damaged.
    """
    check_readable(path)
    if not zipfile.is_zipfile(path):
        with path.open("rb") as head:
            if head.read(len(_ZIP)) == _ZIP:
                raise DataError(f"motion file {path} is damaged or cut short (its zip file has no end): copy it anew")
        raise DataError(f"motion file {path} is no NPZ (not a zip file): make one with 'unilab motion convert'")
    arrays: dict[str, Tensor] = {}
    texts: dict[str, tuple[str, ...]] = {}
    others: dict[str, str] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                name = key if key.isprintable() else ascii(key)
                try:
                    array = file[key]
                except ValueError as error:
                    others[name] = "Python objects" if "pickle" in str(error).lower() else f"unreadable: {error}"
                    continue
                if isinstance(array, np.ndarray):
                    _sort_in(name, array, arrays, texts, others)
                else:
                    others[name] = "no array"
    except _DAMAGED as error:
        raise DataError(f"motion file {path} is damaged: {_one_line(error)}") from error
    return MotionArrays(source=str(path), arrays=arrays, texts=texts, others=others)


def write_npz(file: Path, arrays: Mapping[str, Tensor], texts: Mapping[str, tuple[str, ...]]) -> None:
    """Write arrays and lists of text to a file that does not exist yet."""
    values: dict[str, _Array] = {key: value.numpy() for key, value in arrays.items()}
    values |= {key: np.array(words, dtype=np.str_) for key, words in texts.items()}
    with file.open("wb") as target:
        np.savez_compressed(target, allow_pickle=False, **values)


def check_readable(path: Path) -> None:
    """Raise DataError for a path that is no file, or one that may not be read."""
    try:
        if path.is_dir():
            raise DataError(f"motion file {path} is a folder: name a file")
        if not path.exists():
            raise DataError(f"motion file {path} does not exist: check the path")
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"motion file {path} cannot be read: {_one_line(error)}") from error


def _sort_in(
    key: str,
    array: _Array,
    arrays: dict[str, Tensor],
    texts: dict[str, tuple[str, ...]],
    others: dict[str, str],
) -> None:
    kind = array.dtype.kind
    if kind in "fiu":
        arrays[key] = torch.from_numpy(array.astype(np.float64, order="C"))
    elif kind in "US":
        words = tuple(_text(word) for word in array.reshape(-1).tolist())
        if all(word.isprintable() for word in words):
            texts[key] = words
        else:
            # Such names would reach a terminal in messages.
            others[key] = "text with control characters"
    else:
        others[key] = f"{array.dtype} values"


def _text(word: str | bytes) -> str:
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else word


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
