"""MTEB: the adapter on small tables; and, where mteb is installed, on a task of its own."""

import importlib
import os
import sys

import numpy as np
import pytest
import torch

from pcme import data, load
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError
from pcme.evaluation import embed, evaluate_score
from pcme.evaluation.mteb import MtebModel
from tests.evaluation.models import untrained


class Columns(dict):
    """As much of a `datasets.Dataset` as a search looks at."""

    def __len__(self):
        return len(self["id"])

    def __getitem__(self, key):
        return self.get(key) if isinstance(key, str) else {name: values[key] for name, values in self.items()}


@pytest.fixture(scope="module")
def split():
    return data.create("aviary", pixels=16, test_species=4, test_images=3).load("test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("mteb") / "run")


@pytest.fixture(scope="module")
def model(folder):
    return MtebModel.load(folder)


def tables(split):
    """(images, captions) of a split as MTEB has them."""
    rows = range(len(split.images))
    images = Columns(id=[*map(split.images.id, rows)], image=[*map(split.images.load, rows)])
    return images, Columns(id=list(split.caption_ids), text=list(split.captions))


def test_a_search_ranks_by_the_models_own_score(folder, model, split):
    images, captions = tables(split)
    model.index(images, encode_kwargs={"batch_size": 5})
    found = model.search(captions, top_k=4, encode_kwargs={})
    own = load(folder)
    embedded = embed(own, split, Problems())
    ranking = own.score().topk(embedded.captions, embedded.images, k=4)
    for row, caption in enumerate(captions["id"]):
        assert list(found[caption]) == [images["id"][i] for i in ranking.ids[row].tolist()]
        assert list(found[caption].values()) == pytest.approx(ranking.scores[row].tolist())
    assert model.name == "pcme/run"


@pytest.mark.parametrize("rows", [(7, 0, 3), range(59, -1, -1)])
def test_candidates_are_put_in_order(model, split, rows):
    images, captions = tables(split)
    model.index(captions)
    some = [captions["id"][i] for i in rows]
    found = model.search(images, top_k=2, top_ranked=dict.fromkeys(images["id"], some))
    whole = model.search(images, top_k=len(captions["id"]))
    for name in images["id"]:
        assert list(found[name]) == [ident for ident in whole[name] if ident in some][:2]


@pytest.mark.parametrize("method", ["pcme-overlap", "pcme-isotropic", "pcme-mu", "pvse"])
def test_encoded_arrays_keep_all_that_the_score_needs(tmp_path, split, method):
    model = MtebModel.load(untrained(tmp_path, f"method.kind={method}"))
    images, captions = tables(split)
    left = model.encode([captions[0:3], captions[3:5]], prompt_type="query", batch_size=32)
    right = model.encode([images[0:4]])
    assert left.dtype == np.float32
    matrix = model.similarity(left, right)
    texts, pictures = captions["text"][:5], images["image"][:4]
    direct = model.score(model.model.encode_captions(texts), model.model.encode_images(pictures))
    torch.testing.assert_close(matrix, direct)
    torch.testing.assert_close(model.similarity_pairwise(left[:4], right), matrix[:4].diagonal())
    with pytest.raises(DataError, match="got 5 and 4"):
        model.similarity_pairwise(left, right)


def test_means_alone(folder, split):
    model = MtebModel.load(folder, means=True)
    images, captions = tables(split)
    left, right = model.encode([captions[0:3]]), model.encode([images[0:4]])
    assert left.shape == (3, 16)
    expected = -torch.cdist(torch.tensor(left), torch.tensor(right)).square()
    torch.testing.assert_close(model.similarity(left, right), expected, rtol=1e-4, atol=1e-5)


def test_titles_and_instructions_belong_to_the_text(model):
    batch = {"text": ["a bird ", "a jay"], "title": ["Small", ""], "instruction": ["find it", None]}
    joined = {"text": ["Small a bird find it", "a jay"]}
    np.testing.assert_array_equal(model.encode([batch]), model.encode([joined]))


@pytest.mark.parametrize(
    "batch", [{"text": ["a"], "image": ["b"]}, {"audio": ["a"]}, {"text": [[{"role": "user", "content": "a bird"}]]}]
)
def test_what_cannot_be_embedded_is_refused(model, batch):
    with pytest.raises(ConfigError, match=r"must be (images or texts|sentences)"):
        model.encode([batch])


def test_what_is_missing_is_an_error(folder, split, monkeypatch):
    model = MtebModel.load(folder)
    with pytest.raises(DataError, match=r"Call index\(corpus\) first"):
        model.search(tables(split)[0], top_k=1)
    with pytest.raises(DataError, match="dataset is empty"):
        model.index(Columns(id=[], text=[]))
    monkeypatch.setitem(sys.modules, "mteb.models.model_meta", None)
    with pytest.raises(ConfigError, match=r"pip install pcme\[mteb\]"):
        model.mteb_model_meta  # noqa: B018


@pytest.mark.filterwarnings("ignore")  # mteb's and its libraries' own
def test_mteb_runs_a_task_and_finds_what_evaluation_finds(folder, model, split, monkeypatch):
    """Its precision_at_1 is our recall@1; its hit_rate_at_5 our recall@5."""
    reason = "mteb is not installed (360 MB, so not in dev): pip install pcme[mteb] runs this test"
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    mteb = pytest.importorskip("mteb", reason=reason)
    for kind in ("EncoderProtocol", "SearchProtocol"):
        assert isinstance(model, getattr(importlib.import_module("mteb.models"), kind))
    own = load(folder)
    embedded = embed(own, split, Problems())
    ours = evaluate_score(own.score(), embedded.images, embedded.captions, split)
    for way in ("t2i", "i2t"):
        task = local_task(split, way)
        result = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False)
        (figures,) = result.task_results[0].scores["test"]
        values = ours.direction(way).metrics
        assert figures["precision_at_1"] == pytest.approx(values["recall@1"], abs=1e-5)
        assert figures["hit_rate_at_5"] == pytest.approx(values["recall@5"], abs=1e-5)
        assert figures["main_score"] == figures["ndcg_at_10"]


def local_task(split, way):
    """A retrieval task on a split, nothing of which is fetched."""
    from datasets import Dataset
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
    from mteb.abstasks.task_metadata import TaskMetadata

    images, captions = (Dataset.from_dict(dict(table.items())) for table in tables(split))
    queries, corpus = (captions, images) if way == "t2i" else (images, captions)
    matches = split.matches() if way == "t2i" else split.matches().T
    rows = zip(queries["id"], matches, strict=True)
    right = {query: {corpus["id"][item]: 1 for item in row.tolist()} for query, row in rows}

    class Birds(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=f"Birds-{way}", type="Any2AnyRetrieval", category=way, main_score="ndcg_at_10",
            description="Drawn birds.", reference="https://example.org",
            dataset={"path": "local", "revision": "1"}, eval_splits=["test"],
            eval_langs=["eng-Latn"], modalities=["image", "text"],
        )  # fmt: skip

        def load_data(self, **_):
            part = RetrievalSplitData(queries=queries, corpus=corpus, relevant_docs=right, top_ranked=None)
            self.dataset, self.data_loaded = {"default": {"test": part}}, True

    return Birds()
