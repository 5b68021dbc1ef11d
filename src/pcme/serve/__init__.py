"""The server: an index over HTTP, as an API and as a page (docs/guide/serve.md).

`batching` collects what waits, `work` is done on the index, `service` joins the two. `app` is the API itself, and
`server` runs it on a port. FastAPI and what comes with it are imported by the modules, not by the package.
"""
