"""Tables of numbers as text."""

from pathlib import Path

import pytest

from adapters.motion_npz.table_file import read_table
from domain.errors import DataError


def write(folder: Path, text: str) -> Path:
    path = folder / "motion.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text", ["1,2\n3,4\n", "1;2\n3;4", "1 2\n3  4\n", "1\t2\n\n# end\n3\t4\n", "\ufeff1,2,\n3,4,\n"]
)
def test_numbers_are_read_whatever_stands_between_them(tmp_path: Path, text: str) -> None:
    found = read_table(write(tmp_path, text))

    assert found.header is None
    assert found.rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_first_line_of_text_names_the_columns(tmp_path: Path) -> None:
    found = read_table(write(tmp_path, '"x", y\n1e-3,2\n'))

    assert found.header == ("x", "y")
    assert found.rows.tolist() == [[0.001, 2.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n3,abc\n", r"line 3, column 'y' is 'abc'"),
        ("1,2\n3,nan\n", r"line 2, column 2 is 'nan'"),
        ("1,2\n3,inf\n", r"line 2, column 2 is 'inf'"),
        ("1,2\n3\n", r"line 2 has 1 columns, and the first has 2"),
        ("x,y\n", "no rows of numbers"),
        ("", "no rows of numbers"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(write(tmp_path, text))


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "motion.csv"
    path.write_bytes(b"\x80\x04\x95\xff\xfe")

    with pytest.raises(DataError, match="is no text"):
        read_table(path)
    with pytest.raises(DataError, match="does not exist"):
        read_table(tmp_path / "none.csv")
