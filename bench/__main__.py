"""`make bench`: measure every ratio, then write bench/results.json and the tables of docs."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import torch

from bench.data import bench_aviary, bench_loader
from bench.evaluation import bench_coco_shape, bench_every_score
from bench.index import bench_index
from bench.measure import Row, best, faster, report, within
from bench.pages import read_rows, write_pages
from bench.training import bench_growth, bench_gru, bench_overhead, bench_step
from bench.yardstick import broadcast_elk, literal_match_probability, literal_nll
from pcme import Gaussian, Points, scores
from pcme.methods.likelihood import pair_nll
from pcme.retrieval.ranking import Ranking

HERE = Path(__file__).parent


def gaussians(n: int, dim: int, *, seed: int, log_sigma: float = -3.6) -> Gaussian:
    """Gaussians like those of a trained model: unit means, log σ from N(log_sigma, 0.3)."""
    generator = torch.Generator().manual_seed(seed)
    mean = torch.nn.functional.normalize(torch.randn(n, dim, generator=generator))
    return Gaussian(mean, log_sigma + 0.3 * torch.randn(n, dim, generator=generator))


def bench_pair_nll() -> list[Row]:
    """The loss on samples, forward and backward: B = 128, J = 7, D = 512."""
    size, count, dim = 128, 7, 512
    sides = [gaussians(size, dim, seed=s).sample(count, _generator(s)).x for s in (0, 1)]
    x, y = (t.requires_grad_() for t in sides)
    scale, shift = (torch.tensor(10.0, requires_grad=True) for _ in range(2))
    matches = torch.eye(size, dtype=torch.bool)

    def loss_and_gradients(nll: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
        loss = nll().sum()
        return [loss.detach(), *torch.autograd.grad(loss, (x, y, scale, shift))]

    def ours() -> list[torch.Tensor]:
        return loss_and_gradients(lambda: pair_nll(Points(x), Points(y), matches, scale=scale, shift=shift))

    def literal() -> list[torch.Tensor]:
        return loss_and_gradients(lambda: literal_nll(x, y, matches, scale, shift))

    left, right = (t.detach().reshape(-1, dim) for t in (x, y))
    square = left @ right.T

    def products() -> None:
        left @ right.T, square @ right, square.T @ left

    worst = max(_relative(a, b) for a, b in zip(ours(), literal(), strict=True))
    assert worst < 1e-4, f"value or gradients differ from the literal version by {worst}"
    our_time, literal_time = best(ours, literal, repeats=3)
    products_time, our_second_time = best(products, ours, repeats=20)
    return [
        faster("pair_nll sampled, fwd+bwd, B=128 J=7 D=512", our_time, literal_time, 200, f"agree to {worst:.0e}"),
        within("  against the bare matrix products it needs", our_second_time, products_time, 3),
    ]


def bench_match_probability() -> list[Row]:
    """Sampled and analytic match probability: Q = 64, G = 2,000, J = 7, D = 512."""
    queries, gallery = gaussians(64, 512, seed=0), gaussians(2000, 512, seed=1)
    x, y = (g.sample(7, _generator(s)).x for s, g in enumerate((queries, gallery)))
    sampled = scores.create("match_prob", method="sampled")
    analytic = scores.create("match_prob")
    ours = sampled.probability(Points(x), Points(y))
    literal = literal_match_probability(x[:4], y, 10.0, 10.0)
    gap = float((ours[:4] - literal).abs().max())
    assert gap < 1e-4, gap
    on_samples, literal_time = best(
        lambda: sampled(Points(x), Points(y)), lambda: literal_match_probability(x, y, 10.0, 10.0), repeats=3
    )
    with_draws, exact = best(lambda: sampled(queries, gallery), lambda: analytic(queries, gallery), repeats=15)
    on_samples_again, _ = best(lambda: sampled(Points(x), Points(y)), lambda: None, repeats=15)
    return [
        faster("match_prob sampled, Q=64 G=2,000 J=7 D=512", min(on_samples, on_samples_again), literal_time, 150),
        faster("match_prob analytic against sampled, on the same Gaussians", exact, with_draws, 3),
        faster("  … against sampled with the samples already drawn", exact, on_samples_again, 1),
    ]


def bench_topk() -> list[Row]:
    """Top 10 of 100,000 x 512 items for 1,000 queries, beside faiss's flat index."""
    queries, gallery = gaussians(1000, 512, seed=0), gaussians(100_000, 512, seed=1)
    rows, faiss_times = [], {}
    for name in ("csd", "w2"):
        lifted = [_l2_vectors(name, g, side) for side, g in enumerate((queries, gallery))]
        index = faiss.IndexFlatL2(lifted[1].shape[1])
        index.add(lifted[1])
        score = scores.create(name)
        ids = score.topk(queries, gallery, k=10).ids
        agreement = float((torch.from_numpy(index.search(lifted[0], 10)[1]) == ids).float().mean())
        ours, theirs = best(
            lambda: score.topk(queries, gallery, k=10),  # noqa: B023
            lambda: index.search(lifted[0], 10),  # noqa: B023
            repeats=5,
            seconds=60,
        )
        faiss_times[name] = theirs
        note = f"{agreement:.2%} of ids as faiss (float32 ties aside)"
        rows.append(within(f"topk {name}, 100,000 x 512, k=10, 1,000 queries", ours, theirs, 1.3, note))
    score = scores.create("match_prob")
    sample = slice(0, 64)
    full = Ranking.from_scores(score(queries[sample], gallery), k=10)
    same = torch.equal(score.topk(queries, gallery, k=10).ids[sample], full.ids)
    assert same, "match_prob top-k differs from the full matrix"
    (ours,) = best(lambda: score.topk(queries, gallery, k=10), repeats=5, seconds=60)
    rows.append(
        within(
            "topk match_prob analytic, same size, against csd in faiss",
            ours,
            faiss_times["csd"],
            2,
            "ids equal the full matrix's (64 queries checked)",
        )
    )
    return rows


def bench_densities() -> list[Row]:
    """The density scores (Q = 256, G = 5,000, D = 256), the overlap loss (B = 128, D = 512), top-k by shortlist."""
    queries, gallery = (gaussians(n, 256, seed=n, log_sigma=-2.4) for n in (256, 5000))
    raw = [t for g in (queries, gallery) for t in (g.mean, g.variance)]
    rows = []
    for name in ("elk", "overlap", "bhattacharyya"):
        score = scores.create(name)
        ours, plain = best(
            lambda: score(queries, gallery),  # noqa: B023
            lambda: broadcast_elk(*raw),
            repeats=3,
        )
        rows.append(faster(f"{name}, Q=256 G=5,000 D=256, against a broadcast", ours, plain, 10))
    return [*rows, _density_training(), *_density_topk()]


def _density_training() -> Row:
    sides = [gaussians(128, 512, seed=s, log_sigma=-2.4) for s in (0, 1)]
    tensors = [t.requires_grad_() for g in sides for t in (g.mean, g.log_sigma)]
    matches = torch.eye(128, dtype=torch.bool)

    def ours() -> torch.Tensor:
        left, right = Gaussian(*tensors[:2]), Gaussian(*tensors[2:])
        nll = pair_nll(left, right, matches, scale=10.0, shift=-15.0, method="overlap")
        return torch.autograd.grad(nll.sum(), tensors)[1]

    def plain() -> torch.Tensor:
        variances = [(2 * t).exp() for t in tensors[1::2]]
        x = broadcast_elk(tensors[0], variances[0], tensors[2], variances[1], rows=128)
        logits = -15.0 + 10.0 / 512 * x
        nll = -torch.nn.functional.logsigmoid(torch.where(matches, logits, -logits))
        return torch.autograd.grad(nll.sum(), tensors)[1]

    worst = _relative(ours(), plain())
    assert worst < 1e-4, worst
    fast, slow = best(ours, plain, repeats=8)
    return faster("overlap loss, fwd+bwd, B=128 D=512, against a broadcast", fast, slow, 3)


def _density_topk() -> list[Row]:
    queries, gallery = (gaussians(n, 256, seed=n, log_sigma=-2.4) for n in (256, 50_000))
    score = scores.create("overlap")
    exact = score.topk(queries, gallery, k=10)
    shortlisted = score.topk(queries, gallery, k=10, exact=False)
    recall = float((shortlisted.ids[:, :, None] == exact.ids[:, None]).any(1).float().mean())
    exact_time, shortlist_time = best(
        lambda: score.topk(queries, gallery, k=10), lambda: score.topk(queries, gallery, k=10, exact=False), repeats=3
    )
    note = f"recall@10 of the shortlist {recall:.4f}"
    what = "overlap topk shortlist, Q=256 G=50,000 D=256, against exact"
    return [faster(what, shortlist_time, exact_time, 1, note)]


def _l2_vectors(name: str, items: Gaussian, side: int) -> np.ndarray:
    """Vectors whose L2 distance ranks like the score. For csd the extra column is 0 on the queries' side."""
    if name == "w2":
        return torch.cat((items.mean, items.sigma), 1).numpy()
    extra = items.variance.sum(1, keepdim=True).sqrt() * side
    return torch.cat((items.mean, extra), 1).numpy()


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


def merge(rows: list[Row], path: Path) -> list[Row]:
    """The recorded rows, updated by name. A run of at least as many rows replaces them all."""
    recorded = [Row(**row) for row in json.loads(path.read_text())["rows"]] if path.exists() else []
    measured = {row.what: row for row in rows}
    merged = [measured.pop(row.what, row) for row in recorded]
    return rows if len(rows) >= len(merged) else [*merged, *measured.values()]


PARTS = {
    "pair_nll": bench_pair_nll,
    "match_prob": bench_match_probability,
    "topk": bench_topk,
    "densities": bench_densities,
    "coco": bench_coco_shape,
    "evaluation": bench_every_score,
    "loader": bench_loader,
    "aviary": bench_aviary,
    "step": bench_step,
    "gru": bench_gru,
    "overhead": bench_overhead,
    "growth": bench_growth,
    "index": bench_index,
}


ALONE = ("coco", "evaluation", "growth", "index", "loader")
"""Parts that measure memory or set the number of threads: each in a process of its own."""


def run_in_new_process(part: str) -> list[Row]:
    """Measure a part in a new process; return its rows."""
    command = [sys.executable, "-m", "bench", part, "--rows"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Row(**row) for row in json.loads(out.splitlines()[-1])]


def main() -> None:
    """Run all parts, or those named."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--rows", action="store_true", help="print the rows as JSON, write no file")
    options = parser.parse_args()
    chosen = options.parts or list(PARTS)
    rows = []
    for part in chosen:
        print(f"{part} …", file=sys.stderr, flush=True)
        in_new_process = part in ALONE and not options.rows
        rows += run_in_new_process(part) if in_new_process else PARTS[part]()
    if options.rows:
        print(json.dumps([row.__dict__ for row in rows]))
        return
    report(merge(rows, HERE / "results.json"), HERE / "results.json")
    write_pages(read_rows(HERE / "results.json"))


if __name__ == "__main__":
    main()
