"""``unilab motion``: look at reference motions, find what is wrong with them, convert and make them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from application.motion.check import MotionReport
    from application.motion.findings import Finding
    from application.motion.schema import ReadMotion
    from domain.motion.clip import MotionClip
    from domain.physics import EntityIndex
    from entrypoints.motion_tools import MotionDesk

FOUND = 1
WORST_BODIES = 5
ROBOT = "g1"
RATE = 50.0
"""Hz: what the tasks of that robot run at."""
CONTENT = "nothing is wrong with it"

motion = typer.Typer(name="motion")
Source = Annotated[str, typer.Argument(metavar="FILE", help="Motion file (NPZ), or builtin:NAME.")]
Robot = Annotated[str, typer.Option("--robot", help="Robot that the motion is for: g1 or go2.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE.npz", help="File to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Fps = Annotated[float, typer.Option("--fps", help="Rate of the new file, frames a second.")]


@motion.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    """Reference motions: look at them, check, convert and make them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@motion.command("inspect")
def inspect(
    source: Source,
    robot: Robot = ROBOT,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw root and joints over time.")
    ] = None,
) -> None:
    """Show what a motion holds: rate, length, names, and how far root and joints move.

    unilab motion inspect builtin:squat --plot squat.png
    """
    from domain.errors import ConfigurationError
    from entrypoints.cli.options import DEFAULT_RUNS
    from entrypoints.composition import make_container
    from entrypoints.evaluation import check_place
    from entrypoints.motion_tools import motion_desk, read

    if plot is not None:
        if plot.suffix != ".png":
            raise ConfigurationError(f"--plot is '{plot}': name a file that ends in .png")
        check_place(plot, "--plot")
    container = make_container(DEFAULT_RUNS)
    desk = motion_desk(container, robot)
    found = read(desk, source)
    _print_clip(found, desk.robot)
    if plot is not None:
        container.motion_plotter().plot(found.clip, desk.robot, plot)
        typer.echo(f"plot {plot}")


@motion.command("check")
def check(
    source: Source,
    robot: Robot = ROBOT,
    control_rate: Annotated[
        float, typer.Option("--control-rate", help="Control steps a second of the task; a clip has a frame for each.")
    ] = RATE,
) -> None:
    """Say what is wrong with a motion, what it would do to training, and how to mend it. Nothing is simulated.

    Ends with code 0 where all is well, 1 where something was found, 2 where the file is missing or of another form.

    unilab motion check dance.npz
    """
    from entrypoints.motion_tools import check as run_check

    report = run_check(_desk(robot), source, control_rate)
    _print_report(report)
    if report.findings:
        raise typer.Exit(FOUND)


@motion.command("convert")
def convert(
    source: Annotated[str, typer.Argument(metavar="FILE", help="NPZ, a table of numbers (CSV), or builtin:NAME.")],
    out: Out,
    robot: Robot = ROBOT,
    fps: Fps = RATE,
    fps_in: Annotated[
        float | None, typer.Option("--fps-in", help="Rate of FILE: of a table, or instead of what an NPZ says.")
    ] = None,
    quat_order: Annotated[
        str | None, typer.Option("--quat-order", help="How FILE writes rotations: wxyz or xyzw.")
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="Factor on positions: 0.01 for a file in cm.")] = 1.0,
    root_height_offset: Annotated[
        float, typer.Option("--root-height-offset", help="Metres to add to the root's height.")
    ] = 0.0,
    degrees: Annotated[bool, typer.Option("--degrees", help="Joints of FILE are in degrees.")] = False,
    drop_free_joint: Annotated[
        bool, typer.Option("--drop-free-joint", help="The first 7 columns of joint_pos are the root's pose.")
    ] = False,
    root_body: Annotated[
        int | None, typer.Option("--root-body", help="Place of the root on FILE's body axis, from 0.")
    ] = None,
    force: Force = False,
) -> None:
    """Make a whole motion file of root and joints; bodies and velocities are computed anew.

    A table has a frame a line: x y z, quaternion, joints in the robot's order, or columns named in the first line.

    unilab motion convert dance.csv --fps-in 30 --quat-order xyzw --out dance.npz
    """
    from application.motion.convert import ConvertOptions
    from entrypoints.motion_tools import check_made
    from entrypoints.motion_tools import convert as run_convert

    options = ConvertOptions(
        fps=fps,
        fps_in=fps_in,
        quat_order=quat_order,
        scale=scale,
        root_height_offset=root_height_offset,
        degrees=degrees,
        drop_free_joint=drop_free_joint,
        root_body=root_body,
    )
    desk = _desk(robot)
    made = run_convert(desk, source, out, options, force=force)
    _print_written(made, out)
    findings = check_made(desk, made).findings
    for finding in findings:
        typer.echo(f"found: {finding.what}")
    typer.echo(_verdict(len(findings), out, robot, made.clip.fps))


@motion.command("make")
def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Built-in motion: squat, sway, step or wave.")],
    out: Out,
    robot: Robot = ROBOT,
    fps: Fps = RATE,
    force: Force = False,
) -> None:
    """Write a built-in motion to a file.

    unilab motion make squat --out squat.npz
    """
    from entrypoints.motion_tools import make as run_make

    _print_written(run_make(_desk(robot), name, out, fps, force=force), out)


def _desk(robot: str) -> "MotionDesk":
    from entrypoints.cli.options import DEFAULT_RUNS
    from entrypoints.composition import make_container
    from entrypoints.motion_tools import motion_desk

    return motion_desk(make_container(DEFAULT_RUNS), robot)


def _print_clip(found: "ReadMotion", robot: "EntityIndex") -> None:
    from entrypoints.cli.display import table

    clip = found.clip
    _print_head(clip)
    for note in found.notes:
        typer.echo(f"note: {note}")
    root = clip.body_pos[:, clip.bodies.index(robot.root_body)]
    speed = clip.body_lin_vel[:, clip.bodies.index(robot.root_body)]
    rows = [
        (f"{robot.root_body} {axis}, m", *_extent(root[:, i].tolist()), "", f"{float(speed[:, i].abs().max()):.2f}")
        for i, axis in enumerate("xyz")
    ]
    for i, (name, ends) in enumerate(zip(clip.joints, robot.joint_range, strict=True)):
        limits = f"{ends[0]:.2f} .. {ends[1]:.2f}"
        fastest = f"{float(clip.joint_vel[:, i].abs().max()):.2f}"
        rows.append((f"{name}, rad", *_extent(clip.joint_pos[:, i].tolist()), limits, fastest))
    typer.echo(table(rows, headers=("", "least", "most", "range", "fastest /s")))
    typer.echo(f"bodies: {', '.join(clip.bodies)}")


def _extent(values: list[float]) -> tuple[str, str]:
    return f"{min(values):.3f}", f"{max(values):.3f}"


def _print_head(clip: "MotionClip") -> None:
    seconds = (clip.frames - 1) / clip.fps
    typer.echo(
        f"{clip.source}: {clip.frames} frames at {clip.fps:g} fps, {seconds:.2f} s, {len(clip.joints)} joints, "
        f"{len(clip.bodies)} bodies"
    )


def _print_report(report: "MotionReport") -> None:
    from entrypoints.cli.display import table

    _print_head(report.clip)
    worst = [body for body in report.bodies if body.off]
    if not worst:
        worst = sorted(report.bodies, key=lambda body: -body.distance)[:WORST_BODIES]
    rows = [
        (
            body.body,
            f"{body.distance:.4f} m at frame {body.distance_frame}",
            f"{body.angle:.4f} rad at frame {body.angle_frame}",
        )
        for body in worst
    ]
    typer.echo(f"bodies against forward kinematics, the {len(rows)} {'that are off' if worst[0].off else 'worst'}:")
    typer.echo(table(rows))
    typer.echo(f"lowest point above the floor: {report.clearance[0]:.4f} to {report.clearance[1]:.4f} m")
    for note in report.notes:
        typer.echo(f"note: {note}")
    for finding in report.findings:
        typer.echo(f"found: {finding.what}{_repair(finding, report.clip.source)}")
    if not report.findings:
        typer.echo(CONTENT)


def _verdict(count: int, out: Path, robot: str, fps: float) -> str:
    """Return whether a check of a file that was written is content, and the command that says what it found."""
    if count == 0:
        return CONTENT
    options = ("" if robot == ROBOT else f" --robot {robot}") + ("" if fps == RATE else f" --control-rate {fps:g}")
    return f"{count} finding{'s' if count > 1 else ''}: unilab motion check {out}{options}"


def _repair(finding: "Finding", source: str) -> str:
    from application.motion.findings import convert_command

    if finding.options is not None:
        return f"\n  -> {convert_command(source, finding.options)}"
    return "" if finding.mend is None else f"\n  {finding.mend}"


def _print_written(made: "ReadMotion", out: Path) -> None:
    _print_head(made.clip)
    for note in made.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"motion {out}")
