"""What the arrays of a motion file mean for a robot, and the arrays that a clip is written as.

Two forms are read. The first has one column a joint and one row a MuJoCo body, with names or, by position, without.
The second always has names and puts the free joint before the joints: x y z, w x y z in ``joint_pos``, linear and
angular velocity in ``joint_vel``. Rotations are w first unless a text ``quat_order`` in the file says ``xyzw``.

Source:
    Public unilab 1.5.2, ``motion_loader``; holosoma, motion files with names.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from application.motion.keys import FREE_POS, missing_key
from application.motion.names import left_out, meant
from application.motion.ports import MotionArrays
from domain.errors import DataError
from domain.motion.clip import UNIT_NORM_ERROR, MotionClip
from domain.physics import EntityIndex
from domain.rotations import quat_angle

WORLD = "world"
JOINT_NAMES = "joint_names"
BODY_NAMES = "body_names"
QUAT_ORDER = "quat_order"
BODY_KEYS = {"body_pos_w": 3, "body_quat_w": 4, "body_lin_vel_w": 3, "body_ang_vel_w": 3}
"""Arrays of bodies, and what each holds of one."""
KEYS = ("joint_pos", "joint_vel", *BODY_KEYS)
FREE_VEL = 6
SAME_POSITION = 5e-3
"""m: how far two accounts of one position may be apart."""
SAME_ROTATION = 0.05
"""rad."""


@dataclass(frozen=True, kw_only=True)
class ReadMotion:
    """A clip and what its reader should know of how it was read."""

    clip: MotionClip
    notes: tuple[str, ...] = ()
    quat_order: str = "wxyz"
    """How its file writes rotations; the clip has w first."""


def read_motion(file: MotionArrays, robot: EntityIndex) -> ReadMotion:
    """Return a file's clip with the robot's joints in its order, and those of its bodies that the file has.

    Raises:
        DataError: Not one of the forms: names file, key, expected and found shape, and the option of
            ``unilab motion convert`` that mends it; or a value is not finite: names key and frame.
    """
    _check_keys(file, len(robot.joints))
    frames = file.arrays["joint_pos"].shape[0] if file.arrays["joint_pos"].ndim else 0
    notes: list[str] = []
    joints, free = _joints(file, robot, notes)
    bodies = _bodies(file, robot, notes)
    body_names = [name for name in robot.bodies if name in bodies]
    columns = [bodies.index(name) for name in body_names]
    arrays = {}
    for key in KEYS:
        value = file.arrays[key]
        if key in BODY_KEYS:
            _check_shape(file, key, (frames, len(bodies), BODY_KEYS[key]))
            value = value[:, columns]
        else:
            lead = {"joint_pos": FREE_POS, "joint_vel": FREE_VEL}[key] if free else 0
            _check_shape(file, key, (frames, lead + len(joints)))
            value = value[:, [lead + joints.index(name) for name in robot.joints]]
        _check_finite(file, key, bodies.index(robot.root_body))
        arrays[key] = value
    quats = _w_first(file, arrays["body_quat_w"])
    _check_norm(file, quats, body_names)
    if free:
        _check_root(file, arrays["body_pos_w"][:, 0], quats[:, 0])
    clip = MotionClip(
        source=file.source,
        fps=fps_of(file),
        joints=robot.joints,
        bodies=tuple(body_names),
        joint_pos=arrays["joint_pos"].float(),
        joint_vel=arrays["joint_vel"].float(),
        body_pos=arrays["body_pos_w"].float(),
        body_quat=quats.float(),
        body_lin_vel=arrays["body_lin_vel_w"].float(),
        body_ang_vel=arrays["body_ang_vel_w"].float(),
    )
    return ReadMotion(clip=clip, notes=tuple(notes), quat_order=file.texts.get(QUAT_ORDER, ("wxyz",))[0])


def arrays_of(clip: MotionClip) -> tuple[dict[str, Tensor], dict[str, tuple[str, ...]]]:
    """Return arrays and texts of the first form with names; the world is body 0, as in MuJoCo."""
    world = {"body_pos_w": clip.body_pos, "body_lin_vel_w": clip.body_lin_vel, "body_ang_vel_w": clip.body_ang_vel}
    arrays = {key: torch.cat((torch.zeros_like(value[:, :1]), value), dim=1) for key, value in world.items()}
    identity = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(clip.frames, 1, 4)
    arrays["body_quat_w"] = torch.cat((identity, clip.body_quat), dim=1)
    whole = clip.fps == round(clip.fps)
    rate = torch.tensor([clip.fps], dtype=torch.int64 if whole else torch.float64)
    arrays |= {"fps": rate, "joint_pos": clip.joint_pos, "joint_vel": clip.joint_vel}
    return arrays, {JOINT_NAMES: clip.joints, BODY_NAMES: (WORLD, *clip.bodies), QUAT_ORDER: ("wxyz",)}


def fps_of(file: MotionArrays) -> float:
    """Return the rate of a file. Raises DataError where it has none, or one that is not above 0."""
    value = file.arrays.get("fps")
    if value is None and holds_no_numbers(file, "fps"):
        raise DataError(f"{file.source}: fps holds {held(file, 'fps')}, expected one number")
    if value is None:
        raise DataError(f"{file.source}: fps is missing: 'unilab motion convert FILE --fps-in N' gives a rate")
    if value.numel() != 1:
        raise DataError(f"{file.source}: fps has shape {tuple(value.shape)}, expected one number")
    rate = float(value.reshape(()))
    if not 0.0 < rate < float("inf"):
        raise DataError(f"{file.source}: fps is {rate:g}: 'unilab motion convert FILE --fps-in N' gives another rate")
    return rate


def _check_keys(file: MotionArrays, joints: int) -> None:
    for key in KEYS:
        if holds_no_numbers(file, key):
            raise DataError(f"{file.source}: {key} holds {held(file, key)}, expected numbers")
        if key not in file.arrays:
            raise DataError(missing_key(file, key, joints))
    check_texts(file)


def held(file: MotionArrays, key: str) -> str:
    """Return what a key holds, in words."""
    return file.others.get(key, "text" if key in file.texts else "numbers")


def holds_no_numbers(file: MotionArrays, key: str) -> bool:
    """Return whether a key is there and holds something else."""
    return key in file.others or key in file.texts


def check_texts(file: MotionArrays) -> None:
    """Raise DataError where names or the order of quaternions are there and cannot be read: they are never guessed."""
    for key in (JOINT_NAMES, BODY_NAMES, QUAT_ORDER):
        if key in file.others or key in file.arrays:
            raise DataError(f"{file.source}: {key} holds {held(file, key)}, expected text")
    for key in (JOINT_NAMES, BODY_NAMES):
        names = file.texts.get(key, ())
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"{file.source}: {key} has '{twice[0]}' more than once")
    order = file.texts.get(QUAT_ORDER)
    if order is not None and order not in (("wxyz",), ("xyzw",)):
        raise DataError(f"{file.source}: {QUAT_ORDER} is '{', '.join(order)}': expected wxyz or xyzw")


def _joints(file: MotionArrays, robot: EntityIndex, notes: list[str]) -> tuple[tuple[str, ...], bool]:
    """Return the names of the joint columns and whether the free joint stands before them."""
    value, count = file.arrays["joint_pos"], len(robot.joints)
    width = value.shape[1] if value.ndim == 2 else -1
    if JOINT_NAMES not in file.texts:
        if width != count:
            mend = ""
            if width == count + FREE_POS:
                mend = ": its first 7 columns may be the free joint: 'unilab motion convert FILE --drop-free-joint'"
            raise DataError(
                f"{file.source}: joint_pos has shape {tuple(value.shape)}, expected (frames, {count}) for this "
                f"robot's joints{mend or _add_names(JOINT_NAMES)}"
            )
        notes.append("no joint_names: joints are taken by position, in the robot's order")
        return robot.joints, False
    names = file.texts[JOINT_NAMES]
    if names and names[0] not in robot.joints and width == len(names) - 1 + FREE_POS:
        # The free joint has a name as well.
        names = names[1:]
    missing = [name for name in robot.joints if name not in names]
    extra = [name for name in names if name not in robot.joints]
    if missing:
        raise DataError(
            f"{file.source}: joint_names lacks {', '.join(missing[:4])}{' and more' if len(missing) > 4 else ''}, "
            f"expected all {count} joints of this robot{meant(missing, extra)}"
        )
    if extra:
        notes.append(left_out("joint that this robot has not", "joints that this robot has not", extra))
    return names, width == len(names) + FREE_POS


def _bodies(file: MotionArrays, robot: EntityIndex, notes: list[str]) -> tuple[str, ...]:
    """Return the names along the body axis."""
    value = file.arrays["body_pos_w"]
    length = value.shape[1] if value.ndim == 3 else -1
    if BODY_NAMES in file.texts:
        names = file.texts[BODY_NAMES]
        if robot.root_body not in names:
            raise DataError(f"{file.source}: body_names lacks '{robot.root_body}', the root of this robot")
        extra = [name for name in names if name not in (WORLD, *robot.bodies)]
        if extra:
            notes.append(left_out("body that this robot has not", "bodies that this robot has not", extra))
        return names
    for names in ((WORLD, *robot.bodies), robot.bodies):
        if length == len(names):
            notes.append("no body_names: bodies are taken by position, in MuJoCo's order")
            return names
    raise DataError(
        f"{file.source}: body_pos_w has shape {tuple(value.shape)}, expected (frames, {len(robot.bodies) + 1}, 3) for "
        "the bodies of this robot and the world: 'unilab motion convert FILE --root-body INDEX' computes the bodies "
        "anew from the joints and the root, whose place on the body axis you name"
    )


def _add_names(key: str) -> str:
    return f": add {key} to the file, a list of text, so that columns are found by name"


def _check_shape(file: MotionArrays, key: str, expected: tuple[int, ...]) -> None:
    found = tuple(file.arrays[key].shape)
    if found == expected:
        return
    text = f"{file.source}: {key} has shape {found}, expected {expected}"
    if found[:1] != expected[:1]:
        raise DataError(f"{text}: all arrays need the same frames, as many as joint_pos")
    if key.endswith(("_vel", "_vel_w")):
        raise DataError(f"{text}: 'unilab motion convert FILE' computes velocities anew")
    raise DataError(f"{text}: correct the array where the file is made")


def _check_finite(file: MotionArrays, key: str, root: int) -> None:
    fine = torch.isfinite(file.arrays[key]).flatten(1).all(dim=1)
    if not bool(fine.all()):
        frame = int((~fine).int().argmax())
        bad = file.arrays[key][frame].flatten()
        kind = "a NaN" if bool(bad.isnan().any()) else "an inf"
        mend = "'unilab motion convert FILE' computes it anew from root and joints"
        of_root = key in ("body_pos_w", "body_quat_w") and not bool(torch.isfinite(file.arrays[key][:, root]).all())
        if key == "joint_pos" or of_root:
            mend = "cut such frames out"
        raise DataError(f"{file.source}: {key} has {kind} at frame {frame}: {mend}")


def _w_first(file: MotionArrays, quats: Tensor) -> Tensor:
    return quats[..., [3, 0, 1, 2]] if file.texts.get(QUAT_ORDER) == ("xyzw",) else quats


def _check_norm(file: MotionArrays, quats: Tensor, bodies: list[str]) -> None:
    norm = torch.linalg.vector_norm(quats, dim=-1)
    off = (norm - 1.0).abs() > UNIT_NORM_ERROR
    if bool(off.any()):
        frame = int(off.any(dim=1).int().argmax())
        body = int(off[frame].int().argmax())
        mend = "'unilab motion convert FILE' computes it anew from root and joints"
        if bool(off[:, 0].any()):
            mend = "correct the root's where the file is made"
        raise DataError(
            f"{file.source}: body_quat_w has norm {float(norm[frame, body]):.3f} at frame {frame} ('{bodies[body]}'), "
            f"expected 1: {mend}"
        )


def _check_root(file: MotionArrays, pos: Tensor, quat: Tensor) -> None:
    """Raise DataError where the free joint and the root body are not in one place."""
    free = file.arrays["joint_pos"][:, :FREE_POS]
    distance = torch.linalg.vector_norm(free[:, :3] - pos, dim=1)
    angle = quat_angle(_w_first(file, free[:, 3:]), quat)
    for value, limit, text in ((distance, SAME_POSITION, "m apart"), (angle, SAME_ROTATION, "rad apart")):
        over = value > limit
        if bool(over.any()):
            frame = int(over.int().argmax())
            raise DataError(
                f"{file.source}: the free joint in joint_pos and the root in body_pos_w and body_quat_w are "
                f"{float(value[frame]):.3f} {text} at frame {frame}: 'unilab motion convert FILE --drop-free-joint' "
                "takes the free joint and computes the bodies anew"
            )
