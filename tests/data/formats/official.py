"""COCO's official annotation files in small, with every field that the published ones have."""

GAPS = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
"""Numbers below 90 that no object class has."""
NAMED = {1: ("person", "person"), 17: ("animal", "cat"), 90: ("indoor", "toothbrush")}
CATEGORIES = [
    {"supercategory": kind, "id": number, "name": name}
    for number in range(1, 91)
    if number not in GAPS
    for kind, name in [NAMED.get(number, ("thing", f"thing {number}"))]
]
"""80 object classes, by number."""
LICENCES = [{"url": "http://creativecommons.org/licenses/by/2.0/", "id": 4, "name": "Attribution License"}]


def info(year):
    return {
        "description": f"COCO {year} Dataset", "url": "http://cocodataset.org", "version": "1.0", "year": year,
        "contributor": "COCO Consortium", "date_created": "2017/09/01",
    }  # fmt: skip


def file_name(number, split="val", year=2014):
    return f"COCO_{split}2014_{number:012}.jpg" if year == 2014 else f"{number:012}.jpg"


def image(number, split="val", year=2014):
    name = file_name(number, split, year)
    return {
        "license": 4, "file_name": name, "coco_url": f"http://images.cocodataset.org/{split}{year}/{name}",
        "height": 18, "width": 24, "date_captured": "2013-11-14 17:02:52",
        "flickr_url": f"http://farm7.staticflickr.com/{number}_z.jpg", "id": number,
    }  # fmt: skip


def captions(numbers, per_image=5, split="val", year=2014):
    """captions_SPLITYEAR.json: annotations in another order than the images."""
    return {
        "info": info(year),
        "images": [image(number, split, year) for number in numbers],
        "licenses": LICENCES,
        "annotations": [
            {"image_id": number, "id": 10 * number + c, "caption": f"{split} {number} {c}"}
            for c in range(per_image)
            for number in sorted(numbers)
        ],
    }


def instances(numbers, objects, year=2014):
    """instances_valYEAR.json of these images; an object is (image, category), or (image, category, "crowd")."""
    return {
        "info": info(year),
        "images": [image(number, year=year) for number in numbers],
        "licenses": LICENCES,
        "annotations": [_seen(place, *each) for place, each in enumerate(objects)],
        "categories": CATEGORIES,
    }


def _seen(place, image, category, kind="object"):
    """A polygon, or a crowd in run lengths."""
    crowd = kind == "crowd"
    outline = {"counts": [100, 40, 292], "size": [18, 24]} if crowd else [[1.5, 1.0, 9.0, 1.0, 9.0, 9.25]]
    return {
        "segmentation": outline, "area": 40.0 if crowd else 36.5, "iscrowd": int(crowd), "image_id": image,
        "bbox": [1.5, 1.0, 7.5, 8.25], "category_id": category, "id": 900_100_000 + place,
    }  # fmt: skip
