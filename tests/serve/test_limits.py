"""Bodies are counted and timed while they arrive, whatever the header says."""

import asyncio

from tests.serve.asking import problem

KIND = {"Content-Type": "application/json"}


def chunks(count, seen):
    async def stream():
        for _ in range(count):
            seen.append(1)
            yield b" " * 1000

    return stream()


def test_a_body_without_a_length_is_counted(serving):
    _, client = serving(body=10_000)
    seen = []
    answer = client.post("/v1/search", content=chunks(1000, seen), headers=KIND)
    status, detail = problem(answer)
    assert (status, "at most 10,000 bytes" in detail) == (413, True)
    assert len(seen) == 11  # no more was read than was needed to know
    assert "content-length" not in answer.request.headers


def test_a_form_is_counted_too(serving, world):
    _, client = serving(body=10_000)
    image = (world / "photos" / "00.png").read_bytes()
    assert len(image) < 9_000
    assert client.post("/v1/search", files={"image": ("a", image)}).status_code == 200
    files = [("image", ("a", image + bytes(10_000)))]
    assert problem(client.post("/v1/search", files=files))[0] == 413


def test_a_length_that_is_too_large_is_refused_before_anything_is_read(serving):
    _, client = serving(body=10_000)
    seen = []
    headers = {**KIND, "Content-Length": "1000000"}
    assert problem(client.post("/v1/search", content=chunks(1000, seen), headers=headers))[0] == 413
    assert seen == []


def test_a_length_that_lies_is_found_out(serving):
    _, client = serving(body=10_000)
    headers = {**KIND, "Content-Length": "5"}
    assert problem(client.post("/v1/search", content=chunks(1000, []), headers=headers))[0] == 413


def test_a_body_that_never_ends_is_given_up(serving):
    _, client = serving(seconds=0.1)

    async def slow():
        yield b"{"
        await asyncio.sleep(10)

    status, detail = problem(client.post("/v1/search", content=slow(), headers=KIND))
    assert (status, "within 0.1 s" in detail) == (408, True)
