"""The search index at scale, beside faiss on the same vectors.

Embeddings are drawn, not encoded, with the shape of trained ones (docs/science/ann.md). Unit means lie in clusters of
fifty, in a rotated space of about 24 effective dimensions out of D, with a little noise in all dimensions. log σ is
about −3.6 ± 0.3. A query is a caption of an item. Its mean is a mixture of the item's mean and another direction of
that space, and its σ is larger.
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


class DrawnEmbeddings:
    """Embeddings drawn at random: any block of items, and captions of items."""

    def __init__(self, dim: int = DIM, *, log_sigma: float = -3.6) -> None:
        self.dim, self.log_sigma = dim, log_sigma
        generator = np.random.default_rng(0)
        self.rotation = np.linalg.qr(generator.standard_normal((dim, dim)))[0].astype(np.float32)
        scale = np.exp(-np.arange(dim) / (2 * EFFECTIVE))
        self.scale = (scale / np.linalg.norm(scale)).astype(np.float32)

    def items(self, start: int, stop: int) -> Gaussian:
        """Items start to stop. An item is the same in every call with the same `start`."""
        clusters = np.arange(start, stop) // PER_CLUSTER
        first = clusters[0]
        centres = np.random.default_rng((1, first)).standard_normal((clusters[-1] - first + 1, self.dim), np.float32)
        offsets = np.random.default_rng((2, first)).standard_normal((stop - start, self.dim), np.float32)
        noise = np.random.default_rng((3, first)).standard_normal(offsets.shape, np.float32)
        mean = (centres[clusters - first] + 0.35 * offsets) * self.scale + 0.005 * noise
        log_sigma = self.log_sigma + 0.3 * noise[:, ::-1]
        return Gaussian(_unit(mean @ self.rotation), torch.from_numpy(np.ascontiguousarray(log_sigma)))

    def captions(self, items: Gaussian, seed: int) -> Gaussian:
        """One caption per item: its mean is near the item's, its σ is larger."""
        noise = np.random.default_rng((4, seed)).standard_normal(items.mean.shape, np.float32)
        direction = _unit((noise * self.scale) @ self.rotation)
        mean = torch.nn.functional.normalize(items.mean + 0.6 * direction)
        return Gaussian(mean, items.log_sigma + 0.5)


def bench_index() -> list[Row]:
    """Build, search (exact and approximate) and update an index of a million rows, in under 12 GB."""
    drawn = DrawnEmbeddings()
    with _folder() as folder:
        index, seconds = _build(folder / "index", drawn, ROWS)
        rows = [_memory_row(seconds)]
        queries = drawn.captions(drawn.items(0, CHUNK)[:: CHUNK // QUERIES], 0)
        vectors, query_vectors = _vectors(drawn, ROWS), _query_vectors(queries)
        flat = faiss.IndexFlatL2(vectors.shape[1])
        flat.add(vectors)
        rows += _exact_rows(index, queries, flat, query_vectors)
        tuning = index.tune([queries[n] for n in range(QUERIES)], target=TARGET)
        rows += _approximate_rows(index, queries, tuning)
        rows += _latency_rows(index, queries)
        rows.append(_faiss_ivf_row(vectors, query_vectors, tuning))
        rows += _update_rows(index, drawn)
        peak = peak_memory()
        rows.append(_peak_row(peak))
        rows.append(_text_row(folder / "model"))
    return rows


def _build(path: Path, drawn: DrawnEmbeddings, count: int) -> tuple[SearchIndex, float]:
    """Build an index of so many items; return it and the seconds that it took."""
    begin = time.perf_counter()
    score = scores.create("match_prob", scale=10.0, shift=10.0)
    index = SearchIndex.create(path, dim=drawn.dim, score=score, spread="diagonal")
    for start in range(0, count, CHUNK):
        stop = min(count, start + CHUNK)
        ids = [f"{n:08d}" for n in range(start, stop)]
        index.add(drawn.items(start, stop), {"number": list(range(start, stop))}, ids=ids)
    index.compact()
    return index, time.perf_counter() - begin


def _memory_row(seconds: float) -> Row:
    """Time and peak memory of writing all rows, drawing included."""
    peak = peak_memory()
    note = f"{ROWS / seconds:,.0f} rows/s, drawing them included; peak memory {peak / 2**30:.1f} GB"
    what = f"index: {ROWS:,} x {DIM} written and compacted"
    return Row(what, f"{seconds:.0f} s", "-", peak / MEMORY, "< 12 GB", peak < MEMORY, note)


def _peak_row(peak: float) -> Row:
    what = "index: peak memory of all of it, faiss's copies included"
    return Row(what, f"{peak / 2**30:.1f} GB", "12 GB", peak / MEMORY, "≤ 1×", peak <= MEMORY, "one process")


def _exact_rows(index: SearchIndex, queries: Gaussian, flat: faiss.Index, vectors: np.ndarray) -> list[Row]:
    """Exact search: one query, and many at once."""
    begin = time.perf_counter()
    index.load()
    index.search(queries[0], exact=True)
    loading = time.perf_counter() - begin
    ours_one, theirs_one = best(
        lambda: index.search(queries[0], exact=True), lambda: flat.search(vectors[:1], 10), repeats=5, seconds=30
    )
    many = [queries[n] for n in range(QUERIES)]
    ours_many, theirs_many = best(
        lambda: index.search_many(many, exact=True), lambda: flat.search(vectors, 10), repeats=2
    )
    same = _recall([hits.ids for hits in index.search_many(many, exact=True)], flat.search(vectors, 10)[1])
    note = f"embeddings loaded in {loading:.1f} s; {same:.1%} of ids as csd in faiss, which gives one query one thread"
    rate = f"{QUERIES / ours_many:,.0f} queries/s"
    return [
        within("index: exact top-10 by match_prob, one query, beside faiss flat", ours_one, theirs_one, 1.3, note),
        within(f"index: the same, {QUERIES} queries at once", ours_many, theirs_many, 1.3, rate),
    ]


def _approximate_rows(index: SearchIndex, queries: Gaussian, tuning: Tuning) -> list[Row]:
    exact_ids = [index.search(queries[n], exact=True).ids for n in range(QUERIES)]
    approximate_ids = [index.search(queries[n], exact=False).ids for n in range(QUERIES)]
    recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(exact_ids, approximate_ids, strict=True)]))
    exact_time, approximate_time = best(
        lambda: index.search(queries[0], exact=True),
        lambda: index.search(queries[0], exact=False),
        repeats=5,
        seconds=30,
    )
    cold = SearchIndex.open(index.path)
    cold.search(queries[0], exact=False)
    (from_disk,) = best(lambda: cold.search(queries[0], exact=False), repeats=5)
    effort = tuning.chosen.effort
    note = (
        f"recall@10 {recall:.4f}: {effort.probes} partitions, {effort.shortlist} candidates; "
        f"{from_disk * 1e3:.1f} ms with nothing in memory"
    )
    return [faster("index: approximate top-10, against exact", approximate_time, exact_time, 20, note)]


def _latency_rows(index: SearchIndex, queries: Gaussian) -> list[Row]:
    """Median time to encode a text and search.

    The search takes a drawn Gaussian instead of the encoded text, because the model has not learnt these items.
    """
    model = _model(DIM)
    texts = [f"a small red bird with a long tail and {n} spots" for n in range(QUERIES)]
    model.encode_captions(texts[:1])
    rows = []
    for mode, exact in (("exact", True), ("approximate", False)):
        times = []
        for n, text in enumerate(texts):
            begin = time.perf_counter()
            model.encode_captions([text])
            index.search(queries[n], exact=exact)
            times.append(time.perf_counter() - begin)
        median, slowest = np.median(times), np.quantile(times, 0.95)
        what = f"index: a text among {ROWS:,} x {DIM}, {mode}, its encoding included"
        note = f"median of {QUERIES}, 95 % within {1e3 * slowest:.0f} ms; {1 / median:,.0f} searches/s"
        rows.append(
            Row(what, f"{1e3 * median:.1f} ms", "100 ms", float(median / 0.1), "≤ 1×", bool(median < 0.1), note)
        )
    return rows


def _model(dim: int) -> Model:
    """An untrained model with the encoders of `aviary`: the weights do not affect its speed."""
    recipe = recipes.get("aviary").model_copy(update={"dim": dim})
    vocab = Vocab.build(["a small red bird with a long tail and spots"])
    return Model(recipe, vocab, torch.zeros(len(vocab), recipe.words.dim)).eval()


def _faiss_ivf_row(vectors: np.ndarray, queries: np.ndarray, tuning: Tuning) -> Row:
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
    truth = flat.search(queries, 10)[1]
    for probes in (5, 10, 20, 40, 80, 160, 320):
        ivf.nprobe, refined.k_factor = probes, 20
        recall = _share(refined.search(queries, 10)[1], truth)
        if recall >= TARGET:
            break
    (theirs,) = best(lambda: refined.search(queries[:1], 10), repeats=5)
    ours = tuning.chosen.milliseconds / 1e3
    note = f"faiss: recall {recall:.4f} with {probes} partitions, 200 candidates, all in memory"
    return within("index: approximate, engine and scores, beside faiss IVF-PQ", ours, theirs, 10, note)


def _update_rows(index: SearchIndex, drawn: DrawnEmbeddings) -> list[Row]:
    """Add a hundred rows and delete them, in this index and in one of a thousand rows."""
    with _folder() as folder:
        small, _ = _build(folder / "small", drawn, 1000)
        (small_time,) = best(lambda: _update(small, drawn), repeats=3)
    (large_time,) = best(lambda: _update(index, drawn), repeats=3)
    what = f"index: add 100 rows and delete 50, in {ROWS:,} against in 1,000"
    return [within(what, large_time, small_time, 2)]


def _update(index: SearchIndex, drawn: DrawnEmbeddings) -> None:
    ids = [f"new-{n}" for n in range(100)]
    index.add(drawn.items(0, 100), ids=ids)
    index.delete(ids[:50])
    index.delete(ids[50:])


def _text_row(folder: Path) -> Row:
    """Search by a text, encoding included."""
    model = _model(128)
    index = SearchIndex.create(folder, model)
    items = DrawnEmbeddings(128).items(0, CHUNK)
    index.add(items, ids=[f"{n:08d}" for n in range(CHUNK)])
    index.search("a small red bird")
    search, encoding = best(
        lambda: index.search("a small red bird"), lambda: model.encode_captions(["a small red bird"]), repeats=5
    )
    what = f"index: a text among {CHUNK:,} x 128 by overlap, against encoding it"
    note = f"{1 / search:,.0f} searches/s, one after the other"
    times = [f"{seconds * 1e3:.1f} ms" for seconds in (search, encoding)]
    return Row(what, *times, search / encoding, "< 50 ms", search < 0.05, note)


def _vectors(drawn: DrawnEmbeddings, count: int) -> np.ndarray:
    """[μ; √Σσ²] of so many items: L2 between these vectors ranks like csd."""
    parts = []
    for start in range(0, count, CHUNK):
        items = drawn.items(start, min(count, start + CHUNK))
        extra = items.variance.sum(1, keepdim=True).sqrt()
        parts.append(torch.cat((items.mean, extra, torch.zeros(len(items), 15)), 1).numpy())
    return np.concatenate(parts)


def _query_vectors(queries: Gaussian) -> np.ndarray:
    """[μ; 0] of the queries."""
    return torch.cat((queries.mean, torch.zeros(len(queries), 16)), 1).numpy()


def _recall(ids: list[list[str]], truth: np.ndarray) -> float:
    return _share(np.array([[int(name) for name in row] for row in ids]), truth)


def _share(ids: np.ndarray, truth: np.ndarray) -> float:
    """The share of the true ids that are among these, averaged over the queries."""
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(truth, ids, strict=True)]))


def _unit(x: np.ndarray) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(x))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pcme-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
