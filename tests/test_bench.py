from bench import evaluation


def test_the_shape_of_coco_is_judged_by_all_its_readings(monkeypatch):
    monkeypatch.setattr(evaluation, "DIM", 2)
    images, captions, rules = evaluation.coco_shape()
    assert (len(images), len(captions), rules.notes) == (5_000, 25_000, ())
    for truth in (rules.i2t, rules.t2i):
        assert len(truth.folds) == 5
        assert truth.plausible is not None
