"""Joined calls: one batch, results to their callers, errors to all of them."""

import asyncio

import pytest

from verl_stare.cpu.coalesce import Coalescer


def test_calls_of_one_moment_are_one_batch() -> None:
    batches: list[list[int]] = []

    async def double(items: list[int]) -> list[int]:
        batches.append(items)
        return [2 * item for item in items]

    async def main() -> list[int]:
        calls = Coalescer(double)
        first = await asyncio.gather(*[calls.submit(item) for item in range(5)])
        return [*first, await calls.submit(9)]

    assert asyncio.run(main()) == [0, 2, 4, 6, 8, 18]
    assert batches == [[0, 1, 2, 3, 4], [9]]


def test_an_error_reaches_every_caller_and_the_next_batch_works() -> None:
    async def fail_on_zero(items: list[int]) -> list[int]:
        if 0 in items:
            raise ValueError("zero")
        return items

    async def main() -> list[object]:
        calls = Coalescer(fail_on_zero)
        failed = await asyncio.gather(
            *[calls.submit(item) for item in (0, 1)], return_exceptions=True
        )
        return [*map(type, failed), await calls.submit(2)]

    assert asyncio.run(main()) == [ValueError, ValueError, 2]


def test_an_error_of_one_call_reaches_its_own_caller_alone() -> None:
    async def halve(items: list[int]) -> list[object]:
        return [item // 2 if item % 2 == 0 else ValueError(item) for item in items]

    async def main() -> list[object]:
        calls = Coalescer(halve)
        return await asyncio.gather(
            *[calls.submit(item) for item in (2, 3, 4)], return_exceptions=True
        )

    first, second, third = asyncio.run(main())
    assert (first, type(second), third) == (1, ValueError, 2)


def test_a_lost_result_hangs_nobody() -> None:
    async def lose(items: list[int]) -> list[int]:
        return items[:-1]

    async def main() -> list[object]:
        calls = Coalescer(lose)
        return await asyncio.gather(
            *[calls.submit(item) for item in (1, 2)], return_exceptions=True
        )

    assert [str(error) for error in asyncio.run(main())] == ["2 calls were joined, 1 came back"] * 2


def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    async def slow(items: list[int]) -> list[int]:
        await asyncio.sleep(0.05)
        return items

    async def main() -> int:
        calls = Coalescer(slow)
        impatient = asyncio.create_task(calls.submit(1))
        patient = asyncio.create_task(calls.submit(2))
        await asyncio.sleep(0.02)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        return await patient

    assert asyncio.run(main()) == 2
