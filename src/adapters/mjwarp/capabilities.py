"""What the MJWarp backend declares; loads neither Warp nor MuJoCo, so planning can read it for free."""

from domain.physics import Capabilities, Execution

CAPABILITIES = Capabilities(
    execution=Execution.DEVICE_RESIDENT,
    model_fields=frozenset(
        {
            "actuator_biasprm",
            "actuator_forcerange",
            "actuator_gainprm",
            "body_inertia",
            "body_ipos",
            "body_mass",
            "dof_armature",
            "dof_damping",
            "dof_frictionloss",
            "geom_friction",
            "opt.gravity",
        }
    ),
    sensor_types=frozenset(
        {
            "accelerometer",
            "actuatorfrc",
            "actuatorpos",
            "actuatorvel",
            "contact",
            "force",
            "frameangacc",
            "frameangvel",
            "framelinacc",
            "framelinvel",
            "framepos",
            "framequat",
            "framexaxis",
            "frameyaxis",
            "framezaxis",
            "gyro",
            "jointactuatorfrc",
            "jointpos",
            "jointvel",
            "magnetometer",
            "subtreeangmom",
            "subtreecom",
            "subtreelinvel",
            "torque",
            "touch",
            "velocimeter",
        }
    ),
)
