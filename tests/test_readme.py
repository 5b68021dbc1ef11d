"""The README's example runs and prints what it says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1.0"
    assert lines[-1] == "torch.Size([100, 100])"


def test_links_point_at_files():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (ROOT / target).exists(), f"{page.name} links to {target}, which is not there"


def test_the_contributors_example_is_a_working_score():
    import torch

    from pcme import scores
    from tests.helpers import random_gaussians

    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    space: dict[str, object] = {"__name__": "contributed"}
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), space)
        score = scores.create("scaled_mean")
        items = random_gaussians(20, 4, seed=0)
        assert torch.equal(score.topk(items, items, k=1).ids[:, 0], torch.arange(20))
    finally:
        scores.registry._classes.pop("scaled_mean", None)
