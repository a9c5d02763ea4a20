"""What all tests share: where Warp keeps the kernels that it has compiled."""

import os
from pathlib import Path

# Set before anything imports Warp. A minute of compiling is paid once a checkout, not once a run.
os.environ.setdefault("WARP_CACHE_PATH", str(Path(__file__).parents[1] / ".warp_cache"))
