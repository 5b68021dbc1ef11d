"""Showcase: the demo, and a report of a run on one page.

    write_page(gather("runs/aviary"), "report.html")

`gather` computes a `RunReport` of plain values. `page` turns it into HTML without scripts, network or other files.
"""

from pcme.showcase.gather import RunReport, gather
from pcme.showcase.page import page, require_writable, write_page

__all__ = ["RunReport", "gather", "page", "require_writable", "write_page"]
