"""Tables as text: one frame a line; cells apart by commas, semicolons, tabs or blanks; names in the first line."""

import math
from pathlib import Path

import torch

from adapters.motion_npz.npz_file import check_readable
from application.motion.ports import MotionTable
from domain.errors import DataError


def read_table(path: Path) -> MotionTable:
    """Return the rows of a text file; empty lines, and those that begin with #, are skipped.

    Raises:
        DataError: The file is missing or no text, a cell is no finite number, or lines differ in length; names them.
    """
    check_readable(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"motion file {path} is no text: give a CSV or an NPZ") from error
    cells = [(number, _cells(line)) for number, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"]
    header = None
    if cells and any(_number(cell) is None for cell in cells[0][1]):
        header = tuple(cells.pop(0)[1])
    if not cells:
        raise DataError(f"motion file {path} has no rows of numbers")
    width = len(header) if header is not None else len(cells[0][1])
    rows = [_row(path, number, row, width, header) for number, row in cells]
    return MotionTable(source=str(path), header=header, rows=torch.tensor(rows, dtype=torch.float64))


def _cells(line: str) -> list[str]:
    for separator in (",", ";", "\t"):
        if separator in line:
            return [cell.strip().strip('"') for cell in line.rstrip().removesuffix(separator).split(separator)]
    return line.split()


def _row(path: Path, number: int, row: list[str], width: int, header: tuple[str, ...] | None) -> list[float]:
    if len(row) != width:
        raise DataError(f"motion file {path}, line {number} has {len(row)} columns, and the first has {width}")
    values = []
    for place, cell in enumerate(row):
        value = _number(cell)
        if value is None or not math.isfinite(value):
            name = f"'{header[place]}'" if header else str(place + 1)
            raise DataError(f"motion file {path}, line {number}, column {name} is '{cell}': give a finite number")
        values.append(value)
    return values


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
