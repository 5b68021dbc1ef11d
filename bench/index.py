"""The search index at scale, beside faiss on the same vectors.

Embeddings are drawn, not encoded, in the shape of trained ones (docs/science/ann.md): unit means in clusters of fifty,
in a space of about twenty-four effective dimensions out of D, rotated, with a little noise in all of them; log σ about
−3.6 ± 0.3. Queries are captions of items: a mixture of an item's mean and another direction of that space, and wider.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import torch

from bench.measure import Row, best, faster, peak_memory, within
from pcme import Gaussian, Model, SearchIndex, recipes, scores
from pcme.data.text.tokens import Vocab
from pcme.index.tuning import Tuning

ROWS, DIM, QUERIES = 1_000_000, 256, 200
PER_CLUSTER, EFFECTIVE, CHUNK = 50, 24, 50_000
MEMORY = 12 * 2**30
TARGET = 0.99


class Drawn:
    """A world of embeddings: any block of items, and captions of them."""

    def __init__(self, dim: int = DIM, *, log_sigma: float = -3.6) -> None:
        self.dim, self.log_sigma = dim, log_sigma
        generator = np.random.default_rng(0)
        self.turn = np.linalg.qr(generator.standard_normal((dim, dim)))[0].astype(np.float32)
        scale = np.exp(-np.arange(dim) / (2 * EFFECTIVE))
        self.scale = (scale / np.linalg.norm(scale)).astype(np.float32)

    def items(self, start: int, stop: int) -> Gaussian:
        """Items start to stop: the same whatever block they are drawn in, if CHUNK divides it."""
        clusters = np.arange(start, stop) // PER_CLUSTER
        first = clusters[0]
        centres = np.random.default_rng((1, first)).standard_normal((clusters[-1] - first + 1, self.dim), np.float32)
        own = np.random.default_rng((2, first)).standard_normal((stop - start, self.dim), np.float32)
        noise = np.random.default_rng((3, first)).standard_normal(own.shape, np.float32)
        mean = (centres[clusters - first] + 0.35 * own) * self.scale + 0.005 * noise
        spread = self.log_sigma + 0.3 * noise[:, ::-1]
        return Gaussian(_unit(mean @ self.turn), torch.from_numpy(np.ascontiguousarray(spread)))

    def captions(self, of: Gaussian, seed: int) -> Gaussian:
        """A caption of each item: near it, not at it, and wider."""
        other = np.random.default_rng((4, seed)).standard_normal(of.mean.shape, np.float32)
        away = _unit((other * self.scale) @ self.turn)
        mean = torch.nn.functional.normalize(of.mean + 0.6 * away)
        return Gaussian(mean, of.log_sigma + 0.5)


def bench_index() -> list[Row]:
    """A million rows: built, searched exactly and approximately, updated; in under 12 GB."""
    world = Drawn()
    with _folder() as folder:
        index, seconds = _built(folder / "index", world, ROWS)
        rows = [_memory_row(seconds)]
        queries = world.captions(world.items(0, CHUNK)[:: CHUNK // QUERIES], 0)
        vectors, asked = _vectors(world, ROWS), _lifted(queries)
        flat = faiss.IndexFlatL2(vectors.shape[1])
        flat.add(vectors)
        rows += _exact_rows(index, queries, flat, asked)
        tuning = index.tune([queries[n] for n in range(QUERIES)], target=TARGET)
        rows += _approximate_rows(index, queries, tuning)
        rows += _latency_rows(index, queries)
        rows.append(_faiss_ivf_row(vectors, asked, tuning))
        rows += _update_rows(index, world)
        peak = peak_memory()
        rows.append(_peak_row(peak))
        rows.append(_text_row(folder / "model"))
    return rows


def _built(path: Path, world: Drawn, count: int) -> tuple[SearchIndex, float]:
    begin = time.perf_counter()
    score = scores.create("match_prob", scale=10.0, shift=10.0)
    index = SearchIndex.create(path, dim=world.dim, score=score, spread="diagonal")
    for start in range(0, count, CHUNK):
        stop = min(count, start + CHUNK)
        ids = [f"{n:08d}" for n in range(start, stop)]
        index.add(world.items(start, stop), {"number": list(range(start, stop))}, ids=ids)
    index.compact()
    return index, time.perf_counter() - begin


def _memory_row(seconds: float) -> Row:
    """How long it took to write everything, drawing included, and the memory that took."""
    peak = peak_memory()
    note = f"{ROWS / seconds:,.0f} rows/s, drawing them included; peak memory {peak / 2**30:.1f} GB"
    what = f"index: {ROWS:,} x {DIM} written and compacted"
    return Row(what, f"{seconds:.0f} s", "-", peak / MEMORY, "< 12 GB", peak < MEMORY, note)


def _peak_row(peak: float) -> Row:
    what = "index: peak memory of all of it, faiss's copies included"
    return Row(what, f"{peak / 2**30:.1f} GB", "12 GB", peak / MEMORY, "≤ 1×", peak <= MEMORY, "one process")


def _exact_rows(index: SearchIndex, queries: Gaussian, flat: faiss.Index, asked: np.ndarray) -> list[Row]:
    """One query, and many at once, against everything."""
    begin = time.perf_counter()
    index.load()
    index.search(queries[0], exact=True)
    loaded = time.perf_counter() - begin
    one, theirs = best(
        lambda: index.search(queries[0], exact=True), lambda: flat.search(asked[:1], 10), repeats=5, seconds=30
    )
    many = [queries[n] for n in range(QUERIES)]
    ours_many, theirs_many = best(
        lambda: index.search_many(many, exact=True), lambda: flat.search(asked, 10), repeats=2
    )
    same = _recall([hits.ids for hits in index.search_many(many, exact=True)], flat.search(asked, 10)[1])
    note = f"embeddings loaded in {loaded:.1f} s; {same:.1%} of ids as csd in faiss, which gives one query one thread"
    rate = f"{QUERIES / ours_many:,.0f} queries/s"
    return [
        within("index: exact top-10 by match_prob, one query, beside faiss flat", one, theirs, 1.3, note),
        within(f"index: the same, {QUERIES} queries at once", ours_many, theirs_many, 1.3, rate),
    ]


def _approximate_rows(index: SearchIndex, queries: Gaussian, tuning: Tuning) -> list[Row]:
    truth = [index.search(queries[n], exact=True).ids for n in range(QUERIES)]
    found = [index.search(queries[n], exact=False).ids for n in range(QUERIES)]
    recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(truth, found, strict=True)]))
    slow, fast = best(
        lambda: index.search(queries[0], exact=True),
        lambda: index.search(queries[0], exact=False),
        repeats=5,
        seconds=30,
    )
    cold = SearchIndex.open(index.path)
    cold.search(queries[0], exact=False)
    (disk,) = best(lambda: cold.search(queries[0], exact=False), repeats=5)
    effort = tuning.chosen.effort
    note = (
        f"recall@10 {recall:.4f}: {effort.probes} partitions, {effort.shortlist} candidates; "
        f"{disk * 1e3:.1f} ms with nothing in memory"
    )
    return [faster("index: approximate top-10, against exact", fast, slow, 20, note)]


def _latency_rows(index: SearchIndex, queries: Gaussian) -> list[Row]:
    """The median over queries, each with a text that is encoded first; what it gives is not used.

    For the model has not learnt these items: the Gaussian that is searched for is a drawn one.
    """
    model = _model(DIM)
    texts = [f"a small red bird with a long tail and {n} spots" for n in range(QUERIES)]
    model.encode_captions(texts[:1])
    rows = []
    for way, exact in (("exact", True), ("approximate", False)):
        times = []
        for n, text in enumerate(texts):
            begin = time.perf_counter()
            model.encode_captions([text])
            index.search(queries[n], exact=exact)
            times.append(time.perf_counter() - begin)
        median, late = np.median(times), np.quantile(times, 0.95)
        what = f"index: a text among {ROWS:,} x {DIM}, {way}, its encoding included"
        note = f"median of {QUERIES}, 95 % within {1e3 * late:.0f} ms; {1 / median:,.0f} searches/s"
        shown = f"{1e3 * median:.1f} ms"
        rows.append(Row(what, shown, "100 ms", float(median / 0.1), "≤ 1×", bool(median < 0.1), note))
    return rows


def _model(dim: int) -> Model:
    """An untrained model with `aviary`'s encoders: weights do not matter for how long it takes."""
    recipe = recipes.get("aviary").model_copy(update={"dim": dim})
    vocab = Vocab.build(["a small red bird with a long tail and spots"])
    return Model(recipe, vocab, torch.zeros(len(vocab), recipe.words.dim)).eval()


def _faiss_ivf_row(vectors: np.ndarray, asked: np.ndarray, tuning: Tuning) -> Row:
    """faiss's IVF-PQ at the same recall, on the same vectors, for one query."""
    width = vectors.shape[1]
    quantiser = faiss.IndexFlatL2(width)
    ivf = faiss.IndexIVFPQ(quantiser, width, 1024, width // 16, 8)
    ivf.cp.niter = 10
    ivf.train(vectors[:: max(1, len(vectors) // 65_536)])
    ivf.add(vectors)
    refined = faiss.IndexRefineFlat(ivf, faiss.swig_ptr(vectors))
    flat = faiss.IndexFlatL2(width)
    flat.add(vectors)
    truth = flat.search(asked, 10)[1]
    for probes in (5, 10, 20, 40, 80, 160, 320):
        ivf.nprobe, refined.k_factor = probes, 20
        recall = _share(refined.search(asked, 10)[1], truth)
        if recall >= TARGET:
            break
    (one,) = best(lambda: refined.search(asked[:1], 10), repeats=5)
    ours = tuning.chosen.milliseconds / 1e3
    note = f"faiss: recall {recall:.4f} with {probes} partitions, 200 candidates, all in memory"
    return within("index: approximate, engine and scores, beside faiss IVF-PQ", ours, one, 10, note)


def _update_rows(index: SearchIndex, world: Drawn) -> list[Row]:
    """Adding and deleting a hundred rows, here and in an index of a thousand."""
    with _folder() as folder:
        small, _ = _built(folder / "small", world, 1000)
        (few,) = best(lambda: _updated(small, world), repeats=3)
    (many,) = best(lambda: _updated(index, world), repeats=3)
    what = f"index: add 100 rows and delete 50, in {ROWS:,} against in 1,000"
    return [within(what, many, few, 2)]


def _updated(index: SearchIndex, world: Drawn) -> None:
    ids = [f"new-{n}" for n in range(100)]
    index.add(world.items(0, 100), ids=ids)
    index.delete(ids[:50])
    index.delete(ids[50:])


def _text_row(folder: Path) -> Row:
    """A text from the model to the hits."""
    model = _model(128)
    index = SearchIndex.create(folder, model)
    items = Drawn(128).items(0, CHUNK)
    index.add(items, ids=[f"{n:08d}" for n in range(CHUNK)])
    index.search("a small red bird")
    whole, encoding = best(
        lambda: index.search("a small red bird"), lambda: model.encode_captions(["a small red bird"]), repeats=5
    )
    what = f"index: a text among {CHUNK:,} x 128 by overlap, against encoding it"
    note = f"{1 / whole:,.0f} searches/s, one after the other"
    times = [f"{seconds * 1e3:.1f} ms" for seconds in (whole, encoding)]
    return Row(what, *times, whole / encoding, "< 50 ms", whole < 0.05, note)


def _vectors(world: Drawn, count: int) -> np.ndarray:
    """[μ; √Σσ²], by which faiss ranks as csd does."""
    parts = []
    for start in range(0, count, CHUNK):
        items = world.items(start, min(count, start + CHUNK))
        own = items.variance.sum(1, keepdim=True).sqrt()
        parts.append(torch.cat((items.mean, own, torch.zeros(len(items), 15)), 1).numpy())
    return np.concatenate(parts)


def _lifted(queries: Gaussian) -> np.ndarray:
    return torch.cat((queries.mean, torch.zeros(len(queries), 16)), 1).numpy()


def _recall(ids: list[list[str]], truth: np.ndarray) -> float:
    return _share(np.array([[int(one) for one in row] for row in ids]), truth)


def _share(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(truth, found, strict=True)]))


def _unit(x: np.ndarray) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(x))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pcme-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
