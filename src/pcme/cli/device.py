"""--device, for every verb that computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

Device = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:1 or mps; auto is $PCME_DEVICE, else an accelerator where there is one.")
]


def on_device(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option --device, on which its models and their data are."""

    @wraps(verb)
    def run(*args: Any, device: Device = "auto", **options: Any) -> None:  # noqa: ANN401 - the verb's own
        from pcme.kernels.devices import preferred

        with preferred(device):
            verb(*args, **options)

    signature = inspect.signature(verb, eval_str=True)
    option = inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default="auto", annotation=Device)
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
