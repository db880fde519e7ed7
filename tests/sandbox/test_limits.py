"""Limits: what is allowed, and that each holds."""

import pytest

from verl_stare.sandbox import Limits, Pool


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"cpu_s": 0}, "sandbox limit cpu_s=0: allowed is a number from 0.1 to 3600"),
        ({"wall_s": "10"}, "sandbox limit wall_s='10': allowed is a number"),
        ({"wall_s": float("nan")}, "sandbox limit wall_s=nan"),
        ({"memory": 1 << 20}, "sandbox limit memory=1048576: allowed is a whole number from"),
        ({"files": 8.0}, "sandbox limit files=8.0: allowed is a whole number from 16 to 4096"),
        ({"output": True}, "sandbox limit output=True"),
        ({"cpu": 8}, "sandbox limit 'cpu' is unknown: allowed are cpu_s, entries, file_size"),
    ],
)
def test_what_is_not_allowed(values: dict, says: str) -> None:
    with pytest.raises(ValueError) as raised:
        Limits.from_mapping(values)
    assert str(raised.value).startswith(says)


def test_defaults() -> None:
    assert Limits.from_mapping({}) == Limits()
    assert Limits.from_mapping(Limits(cpu_s=3, files=32).as_dict()) == Limits(cpu_s=3, files=32)


@pytest.mark.parametrize(
    ("limits", "code", "says"),
    [
        (Limits(cpu_s=1, wall_s=60), "while True: pass", "[timed out after 1s of processor time]"),
        (Limits(wall_s=0.5), "import time\ntime.sleep(9)", "[timed out after 0.5s]"),
        (Limits(memory=1 << 29), "bytearray(1 << 29)", "MemoryError"),
        (Limits(files=16), "[open('/dev/null') for _ in range(20)]", "Too many open files"),
        (Limits(output=1024), "print('x' * 2000)", "at the limit of 0.000977 MiB]"),
        (
            Limits(threads=20),
            "import threading, time\nfor _ in range(30):\n"
            "  threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\ntime.sleep(9)",
            "[killed: more than 20 threads]",
        ),
        (Limits(source=1024), "#" * 1025, "[the code has 1025 bytes, and at most 1024"),
    ],
)
def test_each_holds(pool: Pool, limits: Limits, code: str, says: str) -> None:
    assert says in pool.run(code, limits).text()


def test_the_size_of_a_file_and_of_the_work_directory() -> None:
    limits = Limits(file_size=1 << 20, workdir=2 << 20)
    write = "with open({0!r}, 'wb') as f: f.write(bytes({1}))\nprint('written')"
    with Pool(1, limits=limits) as pool:
        if pool.tier != "bwrap":
            pytest.skip("no file can be written in this tier")
        assert pool.run(write.format("a", 1 << 20)).ok
        assert "File too large" in pool.run(write.format("a", (1 << 20) + 1)).text()
        both = "\n".join(write.format(name, 1 << 20) for name in "ab")
        assert pool.run(both).stdout == "written\nwritten\n"
        assert "No space left" in pool.run(both + "\n" + write.format("c", 1 << 20)).text()
        assert (
            "No space left"
            in pool.run(
                write.format("/dev/shm/a", 1 << 20) * 1
                + "\n"
                + write.format("/dev/shm/b", 1 << 20)
                + "\n"
                + write.format("/dev/shm/c", 1 << 20)
            ).text()
        )
