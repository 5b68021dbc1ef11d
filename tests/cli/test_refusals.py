"""Every mistake is a message with exit status 2 and no traceback, whichever verb it is made with."""

import shlex

import pytest

from pcme import SearchIndex
from tests.helpers import refused

MISTAKES = {
    "lst": "No such command 'lst'",
    "list scors": "scors",
    "version --jsn": "No such option: --jsn",
    "analyze {run} bin": 'Did you mean "bins"',
    "analyze {run} bins --split nowhere": 'no split "nowhere"',
    "analyze {run} bins --set bins=x": "bins: must be a whole number",
    "analyze {run} bins words --set bins=3": "--set: changes one analysis",
    "analyze {run} all --set bins=3": "--set: changes one analysis",
    "analyze {run} extremes --set tail=5": "tail: must be above 0 and at most 1, got 5",
    "analyze {run} toy --out {file}/out": "Give another folder (--out)",
    "analyze {means} erasing": 'analysis "erasing": needs a sigma, method pcme-mu has none. For this run: calibration,',
    "calibrate nowhere aviary": "nowhere: not a model",
    "calibrate {run} aviry": "aviry",
    "calibrate {run} aviary --split dev": "dev",
    "compare {run} {means} --metric recal@1": 'Did you mean "recall@1"',
    "compare {run} {means} --split x": 'no split "x"',
    "compare {run} {file}": "not a saved evaluation",
    "data check aviarry": 'Did you mean "aviary"?',
    "data check {tmp}": "text_c10",
    "data check cub": "has no folder cub",
    "data fetch cubb --yes": 'Did you mean "cub"?',
    "data fetch cub --source npm": '"source" is not a field',
    "data fetch resnet --source pypi": "torchvision, torchvision-152, npm",
    "data check aviary --split dev": 'no split "dev"',
    "evaluate {run} --split tset": 'no split "tset", it has train, val, test',
    "evaluate {run} --scores meen": 'Did you mean "mean"',
    "evaluate {run} --scores match_prob:sampels=3": 'Did you mean "samples"',
    "evaluate {tmp}": "not a model",
    "evaluate": "RUN, --embeddings, --scores-matrix: must be one of them, got none",
    "evaluate {run} --scores-matrix m.npy --data aviary": "must be one of them, got RUN and --scores-matrix",
    "evaluate --embeddings a.npy b.npy --scores-matrix m.npy": "got --embeddings and --scores-matrix",
    "evaluate --embeddings a.npy b.npy": "--data: is missing. Say whose rows --embeddings has",
    "evaluate {run} --data aviary": "--data: goes with files",
    "evaluate {run} --ids a.txt b.txt": "--ids: goes with files",
    "evaluate --scores-matrix m.npy --data aviary --scores mean": "--scores: a matrix has its scores already",
    "evaluate --scores-matrix m.npy --data aviary --out o": "m.npy: no such file",
    "evaluate --embeddings {file} {file} --data aviary": "file.npz: not an archive of arrays",
    "evaluate --embeddings a.npy b.npy --data aviary --scores meen": 'Did you mean "mean"',
    "embed {tmp}/nowhere x --out a.parquet": "unknown dataset",
    "index create {tmp}/index": "model: missing",
    "index create {tmp}/new --model {tmp}": "not a model",
    "index create {tmp}/new --dim 4 --score mena": "unknown score",
    "index create {tmp}/new --dim 4 --score overlap:scal=3": 'Did you mean "scale"',
    "index create {tmp}/new --dim 4 --column year": "--column: must be name=typ",
    "index create {tmp}/new --dim 4 --column y=whole": 'got "whole"',
    "index create {tmp}/new --dim 4 --column y=int64 --column y=string": '--column: "y" is given twice',
    "index create {tmp}/new --dim 4 --column `=int64": '"`" cannot be',
    "index create {tmp}/new --model {run} --dim=16": "dim: decided by the model",
    "index create {tmp}/new --model {run} --score=csd": "score: decided by the model",
    "index create {tmp}/new --model {run} --score=mean": "score: decided by the model",
    "index create {tmp}/new --model {run} --spread=none": "spread: decided by the model",
    "index add {tmp}/nowhere x": "not an index",
    "index verify {tmp}/nowhere": "not an index",
    "index delete {tmp}/nowhere": "not an index",
    "index add {index} aviary --split nonsense": 'no split "nonsense"',
    "index add {index} {photos} --split nope": 'has no split "nope", it is a folder of images',
    "index add {index} {photos} --kind caption": "has no captions, it is a folder of images",
    "index add {index} ''": "items: must be a path",
    "index add {index} {photos} {photos}/../nowhere": "unknown dataset",
    "index tune {index}": "got 1 items",
    "report nothing-here": "not a model",
    "report {run} --split tset": "tset",
    "reproduce table9": 'unknown experiment "table9"',
    "reproduce table3": "pcme reproduce table3 --data coco",
    "reproduce fig-c1": "pcme reproduce fig-c1 --data coco",
    "reproduce table2 --data flickr": "aviary, cub, cub-pairs, coco",
    "reproduce table2 --set dmi=8": 'Did you mean "dim"',
    "reproduce table2 --data cub --data-root nowhere": "nowhere",
    "reproduce coco-1k --data coco --data-root . --quick": "dataset_coco",
    "reproduce report --results nowhere --out docs/R.md": "nowhere: not found",
    "search {tmp}/nowhere 'a bird'": "not an index",
    "search {index} 'a bird' --where 'colour = 1'": "No field named colour",
    "search {index} 'a bird' --where 'year >'": "cannot be used",
    "search {index} ''": "no words",
    "search {index} 'a bird' --k 0": "must be at least 1",
    "search {index} photos/none.png": "no such file",
    "search {index} {empty}": "0 bytes",
    "search {index} none.npy": "is not a NumPy file",
    "search {index} 'a bird' --threshold 2": "threshold: must be a probability",
    "search {index} 'a bird' --threshold nan": "threshold: must be a probability",
    "search {index} 'a bird' --min-coverage 0.5": "pcme calibrate",
    "search {index} 'a bird' --model {photos}": "not a model",
    "train aviry --out run": 'Did you mean "aviary"',
    "train aviary-tiny --set sede=1 --out run": 'Did you mean "seed"',
    "train none.toml --out run": "none.toml",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_explained_and_nothing_is_written(line, run_folder, means_only, photos, tmp_path, monkeypatch):
    index, file, empty = (tmp_path / name for name in ("birds", "file.npz", "empty.png"))
    if "{index}" in line:
        SearchIndex.create(index, run_folder).add(["a red bird"], kind="caption")
    file.write_bytes(b"PK")
    empty.touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PCME_DATA", str(tmp_path))
    before = set(tmp_path.iterdir())
    places = {"run": run_folder, "means": means_only, "index": index, "photos": photos}
    words = [word.format(tmp=tmp_path, file=file, empty=empty, **places) for word in shlex.split(line)]
    assert MISTAKES[line] in refused(*words)
    assert set(tmp_path.iterdir()) == before
    assert not list((tmp_path / "here").iterdir())
