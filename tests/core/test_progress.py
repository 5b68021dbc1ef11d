"""Progress: one callback for all long tasks."""

from pcme.core.progress import named, part_of, silent


def test_parts_add_up_to_the_whole_under_one_name():
    steps = []
    for part in range(2):
        progress = named(part_of(lambda *step: steps.append(step), part, 2), "all")
        progress("images", 1, 2)
        progress("images", 2, 2)
    progress("images", 3, None)
    assert steps == [("all", n, 4) for n in (1, 2, 3, 4)] + [("all", 3, None)]
    assert silent("images", 1, 2) is None
