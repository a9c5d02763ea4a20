"""Keys that a motion file lacks, and whether a conversion can do without them."""

from application.motion.ports import MotionArrays

ROOT_POS = ("root_pos", "root_trans", "base_pos")
ROOT_QUAT = ("root_rot", "root_quat", "base_quat")
JOINTS = ("joint_pos", "dof_pos")
"""Names that projects give to the same thing; the first that a file has counts."""
FREE_POS = 7
"""Columns of a free joint's position: x y z and a quaternion."""


def missing_key(file: MotionArrays, key: str, joints: int) -> str:
    """Return the message on a key that a file lacks: the command that makes it, or what the file needs first.

    Args:
        file: Its arrays.
        key: What is missing.
        joints: How many the robot has.
    """
    holds = ", ".join(sorted({*file.arrays, *file.texts, *file.others})) or "nothing"
    text = f"{file.source}: {key} is missing (it holds {holds})"
    if not _has(file, JOINTS):
        return f"{text}: a motion needs its joints, joint_pos (frames, joints)"
    options = _root_options(file, joints)
    if options is None:
        return f"{text}: a motion needs its root, body_pos_w and body_quat_w, or root_pos and root_rot"
    if "fps" not in file.arrays:
        options = (*options, "--fps-in N")
    command = " ".join(("unilab motion convert FILE", *options))
    order = " (ORDER: wxyz or xyzw)" if "ORDER" in command else ""
    return f"{text}: '{command}'{order} makes a whole motion file from root and joints"


def _root_options(file: MotionArrays, joints: int) -> tuple[str, ...] | None:
    """Return the options with which a conversion finds the root; None where there is none."""
    if _has(file, ROOT_POS) and _has(file, ROOT_QUAT):
        return () if "quat_order" in file.texts else ("--quat-order ORDER",)
    if _has(file, ("body_pos_w",)) and _has(file, ("body_quat_w",)):
        return ()
    columns = file.arrays[next(name for name in JOINTS if name in file.arrays)]
    if columns.ndim == 2 and columns.shape[1] == joints + FREE_POS:
        return ("--drop-free-joint",)
    return None


def _has(file: MotionArrays, names: tuple[str, ...]) -> bool:
    return any(name in file.arrays for name in names)
