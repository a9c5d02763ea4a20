"""One line for an unknown name."""

from domain.errors import unknown_name


def test_an_unknown_name_gets_the_nearest_known_one_and_all_of_them() -> None:
    line = unknown_name("sensor", "gyr", ["linvel", "gyro"])

    assert line == "unknown sensor 'gyr': did you mean 'gyro'? (known: gyro, linvel)"


def test_with_nothing_known_the_line_says_none() -> None:
    assert unknown_name("sensor", "gyro", []) == "unknown sensor 'gyro' (known: none)"
