"""Small copies of CUB's layout, for tests of the loader and of cross-validation."""

from tests.helpers import picture

KINDS = [f"00{number}.{name}" for number, name in enumerate(("Auk", "Jay", "Owl", "Ruff", "Tit", "Wren", "Kite"), 1)]
JUDGING = {1: KINDS[:2], 2: KINDS[1:3], 3: KINDS[3:5]}
"""The validation classes of each fold: the jay judges twice, the wren, sixth of the training classes, never."""


def images_of(classes):
    """Three a class."""
    return [f"{name}/{name[4:]}_{number}.jpg" for name in classes for number in range(3)]


def write(root, classes, lists):
    """The layout with three small images of each class, ten captions of each, and these lists."""
    for name in images_of(classes):
        picture(root / "images" / name)
        text = (root / "text_c10" / name).with_suffix(".txt")
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("".join(f"{text.stem} caption {c}\n" for c in range(10)))
    index = "".join(f"{i} {name}\r\n" for i, name in enumerate(images_of(classes), start=1))
    (root / "images.txt").write_bytes(index.encode())
    (root / "splits").mkdir()
    for file, lines in lists.items():
        (root / "splits" / file).write_text("\n".join(lines) + "\n")
    return root


def folded(root):
    """Six training classes in three folds that overlap, and one unseen class."""
    learnt = KINDS[:6]
    return write(root, KINDS, {
        "trainvalclasses.txt": learnt,
        "testclasses.txt": KINDS[6:],
        **{f"trainclasses{k}.txt": [name for name in learnt if name not in judging] for k, judging in JUDGING.items()},
        **{f"valclasses{k}.txt": judging for k, judging in JUDGING.items()},
        "seen_test_images.txt": ["001.Auk/Auk_0.jpg"],
    })  # fmt: skip
