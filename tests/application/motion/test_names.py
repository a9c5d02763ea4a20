"""Names in messages."""

from application.motion.names import left_out, listed, meant


def test_the_first_four_are_listed() -> None:
    assert listed(["a"]) == "'a'"
    assert listed(list("abcdef")) == "'a', 'b', 'c', 'd' and 2 more"


def test_one_and_several_that_are_left_out() -> None:
    assert left_out("joint", "joints", ["a"]) == "1 joint is left out: 'a'"
    assert left_out("joint", "joints", ["a", "b"]) == "2 joints are left out: 'a', 'b'"


def test_only_what_is_alike_is_asked_for() -> None:
    assert meant(["left_knee_joint"], ["LEFT_KNE_joint", "thumb"]) == (
        "; did you mean 'left_knee_joint' by 'LEFT_KNE_joint'?"
    )
    assert meant(["left_knee_joint"], ["thumb"]) == ""
