"""The published archives in small: {file: bytes} as the official addresses serve them, of a few drawn pictures."""

import json
from dataclasses import replace

from pcme.data.fetch import registry
from tests.data.fetch.serving import tarred, zipped
from tests.data.formats import official
from tests.data.formats.test_cub import IMAGES, LISTS
from tests.helpers import picture


def cub(jpg):
    index = "".join(f"{number} {name}\n" for number, name in enumerate(IMAGES, start=1))
    halves = "".join(f"{number} {number % 2}\n" for number in range(1, len(IMAGES) + 1))
    images = {f"CUB_200_2011/images/{name}": jpg for name in IMAGES}
    others = {
        "CUB_200_2011/images.txt": index.encode(), "CUB_200_2011/train_test_split.txt": halves.encode(),
        "CUB_200_2011/README": b"", "attributes.txt": b"",
    }  # fmt: skip
    texts = {f"cvpr2016_cub/text_c10/{name[:-4]}.txt": b"a small bird\n" * 10 for name in IMAGES}
    lists = {f"splits/{name}": "\n".join(lines).encode() for name, lines in LISTS.items()}
    captions = tarred(texts | {"cvpr2016_cub/word_c10/1.t7": b""})
    return lists | {"CUB_200_2011.tgz": tarred(images | others), "cvpr2016_cub.tar.gz": captions}


def coco(jpg):
    train, val, test = (f"COCO_{part}2014_{number:012}.jpg" for number, part in ((1, "train"), (2, "val"), (3, "val")))
    objects = official.instances((2, 3), [(3, 1)])
    names = ("captions_train2014", "captions_val2014", "instances_train2014", "person_keypoints_val2014")
    documents = {f"annotations/{name}.json": b"{}" for name in names}
    documents["annotations/instances_val2014.json"] = json.dumps(objects).encode()
    return {
        "train2014.zip": zipped({f"train2014/{train}": jpg}),
        "val2014.zip": zipped({f"val2014/{val}": jpg, f"val2014/{test}": jpg}),
        "annotations_trainval2014.zip": zipped(documents),
        "caption_datasets.zip": splits(
            "coco",
            [
                {"filepath": "train2014", "filename": train, "split": "restval", "cocoid": 1},
                {"filepath": "val2014", "filename": val, "split": "val", "cocoid": 2},
                {"filepath": "val2014", "filename": test, "split": "test", "cocoid": 3},
            ],
        ),
    }


def splits(name, entries):
    """Karpathy's archive: the file of this dataset, and others that nobody asked for."""
    for place, entry in enumerate(entries):
        entry["sentences"] = [{"raw": "a small bird", "sentid": 5 * place + number} for number in range(5)]
    documents = {f"dataset_{other}.json": b"{}" for other in ("coco", "flickr8k", "flickr30k")}
    return zipped(documents | {f"dataset_{name}.json": json.dumps({"images": entries}).encode()})


def flickr8k(jpg):
    files = {split: f"{split}.jpg" for split in ("train", "dev", "test")}
    tokens = "".join(f"{file}#{n}\ta bird\n" for file in files.values() for n in range(5))
    texts = {f"Flickr_8k.{split}Images.txt": file.encode() for split, file in files.items()}
    images = {f"Flicker8k_Dataset/{file}": jpg for file in files.values()}
    return {
        "Flickr8k_text.zip": zipped(texts | {"Flickr8k.token.txt": tokens.encode(), "readme.txt": b""}),
        "Flickr8k_Dataset.zip": zipped(images | {"__MACOSX/._Flicker8k_Dataset": b""}),
    }


def flickr30k(jpg):
    entries = [{"filename": f"{split}.jpg", "split": split} for split in ("train", "val", "test")]
    return {
        "flickr30k-images.tar": tarred({f"flickr30k-images/{entry['filename']}": jpg for entry in entries}, "w"),
        "caption_datasets.zip": splits("flickr30k", entries),
    }


MADE = {"cub": cub, "coco": coco, "flickr8k": flickr8k, "flickr30k": flickr30k}


def publish(name, server, folder, monkeypatch):
    """Let the download of this name look at the server; put what people must ask for into the folder."""
    jpg = picture(folder.parent / "picture.jpg").read_bytes()
    contents, items = MADE[name](jpg), []
    for item in registry.create(name).items:
        content = contents[item.name]
        item = replace(item, unpacked=1_000_000 * bool(item.takes))
        if item.by_hand:
            folder.mkdir(exist_ok=True)
            (folder / item.name).write_bytes(content)
            items.append(item)
        else:
            items.append(replace(item, url=server.add(item.name, content), size=len(content), digest=""))
    monkeypatch.setattr(registry.get(name), "items", property(lambda self: items))
    return items
