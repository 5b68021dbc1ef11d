"""Report: all that is known of a run on one page, to be sent to a colleague.

    written(gathered("runs/aviary"), "report.html")

`gathered` computes a `Report`, plain values; `page` turns it into HTML that needs nothing else: no
network, no script, every picture within.
"""

from pcme.showcase.gather import Report, gathered
from pcme.showcase.page import page, require_writable, written

__all__ = ["Report", "gathered", "page", "require_writable", "written"]
