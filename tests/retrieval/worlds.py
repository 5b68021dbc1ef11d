"""Rankings worked by hand, and the rule that orders them written out."""

# Every row has ties, and the lower id must win each of them.
SCORES = [
    [0.1, 0.9, 0.3, 0.9, 0.2, 0.3, 0.0, 0.8],
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    [-1.0, -2.0, 0.0, -0.0, 3.0, -2.0, 3.0, -1.0],
    [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 2.0],
]
ORDER = [[1, 3, 7, 2, 5, 4, 0, 6], [0, 1, 2, 3, 4, 5, 6, 7], [4, 6, 2, 3, 0, 7, 1, 5], [0, 1, 2, 3, 4, 5, 6, 7]]


def ordered(row):
    return sorted(range(len(row)), key=lambda item: (-row[item], item))
