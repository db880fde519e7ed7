"""Pools of each tier that this machine has, one for all tests of a tier."""

from collections.abc import Iterator

import pytest

from verl_stare.sandbox import Limits, Pool, SandboxUnavailable

# Short, so that what never ends is ended soon; long enough for a busy machine.
LIMITS = Limits(cpu_s=1, wall_s=2, memory=1 << 30)
TIERS = ("bwrap", "landlock")


@pytest.fixture(scope="session", params=TIERS)
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    try:
        made = Pool(2, tier=request.param, limits=LIMITS)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with made:
        made.warm_up()
        yield made
