"""Birds drawn by code, and captions whose every match is known.

>>> import numpy as np
>>> from pcme.data.aviary.attributes import facts_of
>>> from pcme.data.aviary.drawing import draw
>>> from pcme.data.aviary.parsing import read, tokens
>>> draw(facts_of(breast="red", bill="short"), np.random.default_rng(0)).size
(64, 64)
>>> read(tokens("a small bird with a crimson breast")).tolist()
[-1, 0, -1, -1, -1, -1, 0, -1]
"""
