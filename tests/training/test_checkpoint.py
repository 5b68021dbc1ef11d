import errno
import io
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from pcme.errors import ConfigError, FormatError
from pcme.training import checkpoint
from pcme.training.checkpoint import flatten_optimiser, newest, save, unflatten_optimiser
from pcme.training.optim import AdamP


def parts(step, size=200):
    """What is saved at a step: it can be told from the contents."""
    generator = torch.Generator().manual_seed(step)
    weights = {"weight": torch.rand(size, generator=generator), "step": torch.tensor(step)}
    moments = {"exp_avg": torch.full((size,), float(step))}
    return {"model": weights, "optimizer": moments}, {"state": {"step": step, "loss": 1 / (step + 1)}}


def put(folder, step, **options):
    return save(folder, step, *parts(step), **options)


def assert_whole(found):
    """The checkpoint holds exactly what was saved at its step."""
    tensors, records = parts(found.step)
    for name, part in tensors.items():
        loaded = found.tensors(name)
        assert loaded.keys() == part.keys()
        assert all(torch.equal(loaded[key], part[key]) for key in part)
    assert found.record("state") == records["state"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_everything_comes_back_bit_for_bit(tmp_path):
    base = torch.arange(24, dtype=torch.float32).view(4, 6)
    odd = {
        "parameter": nn.Parameter(torch.randn(3, 2)),
        "nothing": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "shared": base,
        "shared again": base,
        "row": base[1],
        "transposed": base.t(),
        "strided": base[::2, 1::3],
        "expanded": base[:1].expand(5, 6),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "bits": torch.tensor([math.nan, -0.0, math.inf, 1e-45]),
    }
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16):
        odd[f"ünï {dtype}"] = torch.tensor([0, 1, 2, 3]).to(dtype)
    record = {"names": ["ä", None, True], "best": -math.inf, "lr": 0.1 + 0.2, "big": 2**70, "": {}}
    folder = save(tmp_path / "new" / "checkpoints", 1234, {"odd": odd, "none": {}}, {"r": record})
    assert folder == tmp_path / "new" / "checkpoints" / "step-00001234"
    assert names(folder) == ["manifest.json", "none.safetensors", "odd.safetensors", "r.json"]
    found = newest(folder.parent)
    assert (found.folder, found.step, found.passed_over) == (folder, 1234, ())
    assert found.record("r") == record
    assert found.tensors("none") == {}
    loaded = found.tensors("odd")
    assert loaded.keys() == odd.keys()
    for name, tensor in odd.items():
        assert (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape), name
        a, b = (t.detach().contiguous().view(-1).view(torch.uint8) for t in (loaded[name], tensor))
        assert torch.equal(a, b), name
    loaded["row"].zero_()  # memory of its own
    assert torch.equal(loaded["shared"], base)
    assert all(tensor.data_ptr() % 64 == 0 for tensor in loaded.values())  # where torch puts it


def test_only_the_newest_are_kept_in_the_order_of_their_steps(tmp_path):
    for step in (9, 10, 99_999_999, 100_000_000):  # the last two sort the other way by name
        put(tmp_path, step, keep=3)
        assert newest(tmp_path).step == step
    assert names(tmp_path) == ["step-00000010", "step-100000000", "step-99999999"]
    put(tmp_path, 100_000_001, keep=1)
    assert names(tmp_path) == ["step-100000001"]


def test_a_step_saved_again_replaces_the_first_and_costs_no_other(tmp_path):
    put(tmp_path, 1)
    put(tmp_path, 2)
    for loss in (5, 6, 7):
        save(tmp_path, 2, {}, {"state": {"loss": loss}})
        assert newest(tmp_path).record("state") == {"loss": loss}
        assert newest(tmp_path).step == 2
        assert len(names(tmp_path)) == 2
        assert "step-00000001" in names(tmp_path)
    put(tmp_path, 3)
    put(tmp_path, 4)
    assert names(tmp_path) == ["step-00000003", "step-00000004"]


def test_damaged_ones_do_not_count_among_those_kept(tmp_path):
    for step in (1, 2, 3):
        put(tmp_path, step, keep=3)
    (tmp_path / "step-00000003" / "model.safetensors").write_bytes(b"")
    (tmp_path / "step-00000002" / "manifest.json").unlink()
    put(tmp_path, 4, keep=2)
    assert names(tmp_path) == [f"step-0000000{step}" for step in (1, 2, 3, 4)]
    put(tmp_path, 5, keep=2)
    assert names(tmp_path) == ["step-00000004", "step-00000005"]
    put(tmp_path, 1, keep=1)  # newer steps are left alone
    assert names(tmp_path) == ["step-00000001", "step-00000004", "step-00000005"]


def manifest_with(**changes):
    return lambda data: json.dumps({**json.loads(data), **changes}).encode()


@pytest.mark.parametrize(
    ("file", "change", "note"),
    [
        ("model.safetensors", lambda data: data[:-1], "bytes instead of"),
        ("optimizer.safetensors", lambda data: b"", "has 0 bytes"),
        ("state.json", lambda data: data + b" ", "bytes instead of"),
        ("state.json", lambda data: bytes(len(data)), "SHA-256 differs"),
        ("manifest.json", lambda data: b"\x80\xff{", ""),
        ("manifest.json", lambda data: b"[]", ""),
        ("manifest.json", lambda data: b"[" * 100_000, ""),
        ("manifest.json", manifest_with(format_version=0), "its format is 0"),
        ("manifest.json", manifest_with(format_version=2), "its format is 2"),
        ("manifest.json", manifest_with(step=2), "its manifest is of step 2"),
        ("manifest.json", manifest_with(files=["state.json"]), ""),
        ("manifest.json", manifest_with(files={"state.json": {}}), ""),
        *((file, None, file) for file in ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(tmp_path, file, change, note):
    put(tmp_path, 2)
    path = put(tmp_path, 3) / file
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    found = newest(tmp_path)
    assert found.step == 2
    assert_whole(found)
    (passed_over,) = found.passed_over
    assert passed_over.startswith("step-00000003 is damaged: ")
    assert note in passed_over
    assert checkpoint.damaged(tmp_path) == found.passed_over


def test_nothing_whole_is_none_and_says_why(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        assert newest(folder) is None
        assert checkpoint.damaged(folder) == ()
    for made in [put(tmp_path, step) for step in (1, 2)]:
        (made / "state.json").write_text("{}")
    (tmp_path / "step-00000003").mkdir()
    (tmp_path / "step-00000004").write_text("a file")
    assert newest(tmp_path) is None
    assert [note[:13] for note in checkpoint.damaged(tmp_path)] == [f"step-0000000{step}" for step in (4, 3, 2, 1)]


def test_no_bit_can_flip_unnoticed(tmp_path):
    made = save(tmp_path, 3, {"m": {"w": torch.tensor([1.5])}}, {"s": {"epoch": 1}})
    for path in made.iterdir():
        whole = path.read_bytes()
        every = 1 if path.name == "manifest.json" else 13
        for position in range(0, 8 * len(whole), every):
            flipped = bytearray(whole)
            flipped[position // 8] ^= 1 << position % 8
            path.write_bytes(flipped)
            assert newest(tmp_path) is None, (path.name, position)
        path.write_bytes(whole)
    assert newest(tmp_path).step == 3


def test_what_changes_after_it_was_found_is_noticed_when_read(tmp_path):
    found = newest(put(tmp_path, 3).parent)
    path = found.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(FormatError, match=r"has changed.*was altered"):
        found.tensors("model")
    (found.folder / "state.json").unlink()
    with pytest.raises(FormatError, match=r"has changed.*No such file"):
        found.record("state")
    with pytest.raises(FormatError, match=r"no average\.safetensors, got model\.saf"):
        found.tensors("average")


def state_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def hidden(folder):
    return [name for name in names(folder) if name.startswith(".")]


@contextmanager
def interrupted(number):
    """Ctrl-C at the number-th line of checkpoint.py that runs within the block; yields the lines that remain."""
    remaining = [None] * number

    def trace(frame, event, _):
        if frame.f_code.co_filename != checkpoint.__file__:
            return None
        if event == "line" and remaining:
            remaining.pop()
            if not remaining:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield remaining
    finally:
        sys.settrace(None)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # between a file's opening and its `with`
def test_ctrl_c_at_any_line_leaves_what_was_there_or_what_is_new(tmp_path):
    base = tmp_path / "base"
    for step in (1, 2):
        put(base, step)
    before = state_of(base)
    outcomes = {2: 0, 3: 0}
    for number in count(1):
        folder = tmp_path / "run"
        shutil.copytree(base, folder)
        with suppress(KeyboardInterrupt), interrupted(number) as remaining:
            put(folder, 3)
        if remaining:  # it ran to its end
            break
        found = newest(folder)
        assert_whole(found)
        assert found.passed_over == ()
        outcomes[found.step] += 1
        if found.step == 2:
            assert state_of(folder) == before, number
            assert names(folder) == names(base), number
        checkpoint.clean(folder)
        assert not hidden(folder)
        shutil.rmtree(folder)
    assert min(outcomes.values()) > 20


def full_disk(monkeypatch, number):
    """Makes the number-th operation that can need room fail; returns how many there were."""
    seen = []

    def tick():
        seen.append(None)
        if len(seen) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Torn(io.FileIO):
        """A file that fails after half of a write."""

        def write(self, data):
            written = super().write(data[: len(data) // 2])
            tick()
            return written + super().write(data[len(data) // 2 :])

    def failing(function):
        def called(*args, **kwargs):
            tick()
            return function(*args, **kwargs)

        return called

    opened, create = Path.open, failing(Torn)
    monkeypatch.setattr(Path, "open", lambda path, mode="r": create(path, mode) if mode == "xb" else opened(path, mode))
    monkeypatch.setattr(Path, "mkdir", failing(Path.mkdir))
    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    monkeypatch.setattr(os, "replace", failing(os.replace))
    return seen


def test_a_full_disk_at_any_point_leaves_what_was_there(tmp_path):
    whole = []
    for number in range(1, 100):
        folder = tmp_path / str(number)
        for step in (1, 2):
            put(folder, step)
        before = state_of(folder)
        with pytest.MonkeyPatch.context() as patch:
            seen = full_disk(patch, number)
            try:
                put(folder, 3)
                whole.append(number)
            except FormatError as error:
                assert re.search("step 3 cannot .*No space .*untouched", str(error))  # noqa: PT017 - not every time
        assert not hidden(folder)
        assert before.items() <= state_of(folder).items() or newest(folder).step == 3
        assert_whole(newest(folder))
        if len(seen) < number:
            break
        put(folder, 4)  # after room was made
        assert newest(folder).step == 4
    # It may fail in: mkdir, 4 × (open, write, sync), sync, replace, sync; then one is removed.
    assert whole == [17, 18]


def test_everything_is_durable_before_it_has_its_name(tmp_path, monkeypatch):
    synced, at_replace, fsync, replace = set(), [], os.fsync, os.replace

    def noted_fsync(descriptor):
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def noted_replace(source, target):
        if not at_replace:
            inodes = {path.name: path.stat().st_ino for path in [source, *source.iterdir()]}
            at_replace.extend([len(inodes), {name for name, inode in inodes.items() if inode not in synced}])
            synced.clear()
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    folder = tmp_path / "run" / "checkpoints"
    put(folder, 1)
    assert at_replace == [5, set()]
    assert folder.stat().st_ino in synced


def test_leftovers_are_cleaned_and_nothing_else(tmp_path):
    put(tmp_path, 1)
    leftover = tmp_path / f".step-00000002.{'0' * 32}"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    assert newest(tmp_path).step == 1
    checkpoint.clean(tmp_path)
    assert names(tmp_path) == [".hidden", "notes.txt", "step-00000001"]


@pytest.mark.parametrize("saved_meanwhile", [True, False])
def test_what_is_removed_while_it_is_examined_is_no_damage(tmp_path, monkeypatch, saved_meanwhile):
    put(tmp_path, 1)
    put(tmp_path, 2)
    examine = checkpoint._examine

    def late(path):
        monkeypatch.setattr(checkpoint, "_examine", examine)
        if saved_meanwhile:
            put(tmp_path, 3, keep=1)
        else:
            shutil.rmtree(path)
        return examine(path)

    monkeypatch.setattr(checkpoint, "_examine", late)
    found = newest(tmp_path)
    assert found.step == (3 if saved_meanwhile else 1)
    assert found.passed_over == ()


def test_a_reader_beside_a_writer_sees_whole_checkpoints_only(tmp_path):
    put(tmp_path, 1)
    stop = threading.Event()

    def write():
        for step in count(2):
            if stop.is_set():
                return
            put(tmp_path, step, keep=1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last, whole, end = 0, 0, time.monotonic() + 20
        while (whole < 60 or last < 60) and time.monotonic() < end:
            found = newest(tmp_path)
            assert found.passed_over == ()
            assert found.step >= last
            last = found.step
            try:
                assert_whole(found)
                whole += 1
            except FormatError as error:
                assert "No such file" in str(error)  # noqa: PT017 - removed since, as is allowed
    finally:
        stop.set()
        writer.join()
    assert whole >= 20
    assert last >= 20


def serve_savers(folder):
    """For each line of input: forks a process that saves until it is killed; reports its end."""
    torch.set_num_threads(1)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            os.write(1, f"pid {os.getpid()}\n".encode())
            checkpoint.clean(folder)
            found = newest(folder)
            for step in count(found.step + 1 if found else 1):
                put(folder, step)
                os.write(1, f"saved {step}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


def test_a_run_killed_at_any_moment_keeps_its_newest_checkpoint(tmp_path):
    delays = random.Random(5)
    command = [sys.executable, __file__, tmp_path]
    reported, leftovers = 0, 0
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, bufsize=1) as server:
        for trial in range(100):
            if trial >= 20 and reported > 20 and leftovers >= 3:  # as many as a slow disk needs
                break
            server.stdin.write("\n")
            word, pid = server.stdout.readline().split()
            assert word == "pid"
            time.sleep(delays.uniform(0, 0.15))
            os.kill(int(pid), signal.SIGKILL)
            while (line := server.stdout.readline()) != "dead\n":
                reported = int(line.removeprefix("saved "))
            found = newest(tmp_path)
            assert found.step >= reported if found else reported == 0
            if found:
                assert_whole(found)
                assert found.passed_over == ()
            leftovers += bool(hidden(tmp_path))
        server.stdin.close()
    assert server.returncode == 0
    assert reported > 20
    assert leftovers >= 3  # kills that hit a save


@pytest.mark.parametrize("name", ["", "a/b", "..", "manifest", "ä", "a b", ".hidden"])
def test_names_that_cannot_be_files_are_refused(tmp_path, name):
    for tensors, records in (({name: {}}, {}), ({}, {name: {}})):
        with pytest.raises(ConfigError, match="a part of a checkpoint"):
            save(tmp_path, 1, tensors, records)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "record", [{"a": torch.ones(1)}, {"a": [{1: "one"}]}, {"a": {1, 2}}, {("a", "b"): 1}, {None: 1}]
)
def test_records_that_json_would_not_give_back_are_refused(tmp_path, record):
    with pytest.raises(FormatError, match=r'record "state": not JSON'):
        save(tmp_path, 1, {"m": {"w": torch.ones(2)}}, {"state": record})
    assert names(tmp_path) == []


def test_an_impossible_step_keep_or_folder_is_refused(tmp_path):
    for step, keep in ((-1, 2), (1, 0)):
        with pytest.raises(ConfigError, match="step ≥ 0 and keep ≥ 1"):
            save(tmp_path, step, {}, {}, keep=keep)
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match=r"cannot be written.*Not a directory"):
        save(tmp_path / "file" / "checkpoints", 1, {}, {})


tensors = st.builds(torch.tensor, st.lists(st.integers(-9, 9), max_size=3))
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), tensors)
keys = st.integers(0, 12) | st.sampled_from(["step", "0", "1", "0.1", ".", "", "0'", "a'"])
trees = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.lists(part, max_size=3), st.lists(part, max_size=3).map(tuple), st.dictionaries(keys, part, max_size=3)
    ),
    max_leaves=12,
)


@given(trees, trees)
@example({0: torch.tensor(0), "0": torch.tensor(1), "0'": torch.tensor(2)}, ())
@example({"a": {"b": torch.tensor(0)}, "a.b": torch.tensor(1), "": {"a": torch.tensor(2)}}, None)
def test_any_state_is_taken_apart_and_put_together(state, groups):
    state = {"state": state, "param_groups": groups}
    tensors, record = flatten_optimiser(state)
    text = json.dumps(record, allow_nan=False)
    # the repr tells types, order and -0.0 apart, and NaN is equal to itself
    assert repr(unflatten_optimiser(tensors, json.loads(text))) == repr(state)


def test_adamp_goes_on_from_disk_bit_for_bit(tmp_path):
    def steps(optimiser, params, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(4):
            for p in params:
                p.grad = torch.randn(p.shape, generator=generator)
            optimiser.step()

    params = [nn.Parameter(torch.ones(shape)) for shape in [(4, 3), (5,), ()]]
    straight = AdamP([{"params": params[:1], "lr": 0.1 + 0.2}, {"params": params[1:]}], lr=1 / 3, nesterov=True)
    steps(straight, params, seed=0)
    tensors, record = flatten_optimiser(straight.state_dict())
    model = {str(n): p for n, p in enumerate(params)}
    found = newest(save(tmp_path, 4, {"model": model, "optimizer": tensors}, {"optimizer": record}).parent)

    copies = [nn.Parameter(p) for _, p in sorted(found.tensors("model").items())]
    resumed = AdamP([{"params": copies[:1]}, {"params": copies[1:]}], lr=1.0)
    resumed.load_state_dict(unflatten_optimiser(found.tensors("optimizer"), found.record("optimizer")))
    assert repr(resumed.state_dict()) == repr(straight.state_dict())
    steps(straight, params, seed=1)
    steps(resumed, copies, seed=1)
    assert all(torch.equal(p, q) for p, q in zip(params, copies, strict=True))


@pytest.mark.parametrize("wrong", [object(), {1.5: 1}, {(0, 1): 1}, {1, 2}, 1j])
def test_a_state_that_cannot_be_written_is_refused(wrong):
    with pytest.raises(FormatError, match=r"an optimiser's state with .* at state cannot be saved"):
        flatten_optimiser({"state": wrong})


@pytest.mark.parametrize("record", [None, 5, {"list": []}, {}, {"dict": 3}, {"dict": [["a", {"tensor": "gone"}]]}])
def test_a_record_that_is_no_state_is_refused(record):
    with pytest.raises(FormatError, match="not the state of an optimiser"):
        unflatten_optimiser({}, record)


if __name__ == "__main__":
    serve_savers(Path(sys.argv[1]))
