"""Each case in each tier: what the model is told; nothing is left, and the next call works."""

import pytest

from tests.sandbox import traces
from tests.sandbox.cases import ATTACKS, BENIGN, LISTED, Case
from verl_stare.sandbox import Pool

CASES = {**LISTED, **ATTACKS, **BENIGN}
LOOK = """
import os
print(2 + 3)
for folder in ('.', '/dev/shm'):
    try: print(os.listdir(folder))
    except OSError: print([])
"""
# Of a few processes, none of which should grow.
GROWTH = 200 << 20


@pytest.mark.parametrize("name", CASES)
def test_case(pool: Pool, name: str) -> None:
    case: Case = CASES[name]
    pool.run("pass")
    jails = pool.pids()
    before = traces.at_rest()
    result = pool.run(case.code)
    text = result.text()
    assert result.status in case.status.split("|"), text[-1000:]
    assert any(expected in text for expected in case.expected(pool.tier)), text[-1000:]
    assert case.partial in result.stdout
    assert text.strip()
    text.encode()
    # The next one finds nothing of it.
    after = pool.run(LOOK)
    assert after.stdout == "5\n[]\n[]\n"
    # In the same jail, which has outlived it.
    assert pool.pids() == jails
    left = traces.settled(pool, before)
    assert len(left.processes) <= len(before.processes)
    assert left.descriptors <= before.descriptors
    assert left.files == before.files
    assert left.resident <= before.resident + GROWTH
    assert not traces.strays()
