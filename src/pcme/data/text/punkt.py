"""The sentences of a text in lower case, as nltk's Punkt model of English finds them; no download.

The values below are facts of that model (nltk_data, `punkt_tab/english`; trained by Jan Strunk on the Wall Street
Journal, distributed under Apache-2.0). Of its orthographic table, 20,366 words, only four matter for text in lower
case. Its sentence starters judge capitals, and there its collocations repeat that initials and numbers end no sentence.
"""

from functools import cache
from typing import Any

ABBREVIATIONS = """
    a.a a.c a.d a.g a.h a.m a.m.e a.s a.t adm ala ariz aug ave b.f b.v bros c c.i.t c.o.m.b c.v calif chg cie co col
    colo conn corp cos ct d d.c d.h d.w dec dr e e.f e.h e.l e.m f f.g f.j feb fla fri ft g g.d g.f g.k ga gen h h.c h.f
    h.m i.m.s ill inc j.b j.c j.j j.k j.p j.r jan jr k kan ky l l.a l.f l.p lt ltd m m.b.a m.d.c m.j maj messrs mg mich
    minn mr mrs ms n n.c n.d n.h n.j n.m n.v n.y nev nov oct ok okla ore p p.a.m p.m pa ph.d prof r r.a r.h r.i r.j r.k
    r.t rep reps s s.a s.a.y s.c s.g s.p.a s.s sen sep sept sr st sw t t.j tenn tues u.k u.n u.s u.s.a u.s.s.r v va vs
    vt w w.c w.r w.va w.w wash wed wis yr
"""
SEEN_AT_THE_START = ("administrators", "b-week", "r-revised", "z-holiday")
"""Words that started a sentence in lower case and never had a capital: they may start another."""

_STARTED_IN_LOWER_CASE = 1 << 4


def sentences(text: str) -> list[str]:
    """The sentences of a text in lower case; ImportError without nltk.

    >>> sentences("a u.s. flag on 5th ave. in town. etc. and so on (twice.) he left room 2. asleep")
    ['a u.s. flag on 5th ave. in town.', 'etc.', 'and so on (twice.)', 'he left room 2. asleep']
    """
    return list(_tokenizer().tokenize(text))


@cache
def _tokenizer() -> Any:  # noqa: ANN401 - a class of a package that may not be there
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    english = PunktParameters()
    english.abbrev_types = {*ABBREVIATIONS.split(), ". . "}
    for word in SEEN_AT_THE_START:
        english.ortho_context[word] = _STARTED_IN_LOWER_CASE
    return PunktSentenceTokenizer(english)
