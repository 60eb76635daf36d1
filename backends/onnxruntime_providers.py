"""Further execution providers of ONNX Runtime, which get nodes before the CPU provider does.

A built-in provider has the name in onnxruntime.get_available_providers(), with or without
"ExecutionProvider". A plug-in is a Python package onnxruntime_NAME or onnxruntime_ep_NAME that
gives the path of a library for ONNX Runtime to load.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

CPU = "CPUExecutionProvider"


def split_names(text: str) -> list[str]:
    """The provider names in "A+B", without the CPU's, which is always added last."""
    names = [name.strip() for name in text.split("+")]
    return [name for name in names if name and name.lower() not in ("cpu", CPU.lower())]


def built_in(name: str) -> str:
    """The full name of an execution provider that this onnxruntime contains, else ""."""
    import onnxruntime as ort

    known = {full.lower(): full for full in ort.get_available_providers()}
    return known.get(name.lower(), known.get(f"{name.lower()}executionprovider", ""))


@cache
def plugin_devices(name: str) -> tuple[Any, ...]:
    """The devices (onnxruntime.OrtEpDevice) of a plug-in on this machine. Loads the plug-in.

    Raises: ModuleNotFoundError if there is no package of that name.
    """
    import onnxruntime as ort

    for package in (f"onnxruntime_ep_{name.lower()}", f"onnxruntime_{name.lower()}"):
        try:
            module: Any = importlib.import_module(package)
            break
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
    else:
        raise ModuleNotFoundError(f"no package onnxruntime_ep_{name.lower()}")
    path = getattr(module, "get_library_path", None) or module.library_path
    before = {device.ep_name for device in ort.get_ep_devices()}
    ort.register_execution_provider_library(package, path())
    return tuple(device for device in ort.get_ep_devices() if device.ep_name not in before)


def add_providers(options: Any, names: Any) -> dict[str, Any]:
    """Further arguments of onnxruntime.InferenceSession for these execution providers. Plug-ins are
    added to the SessionOptions `options`."""
    import onnxruntime as ort

    built = [built_in(name) for name in names]
    if all(built):
        return {"providers": [*built, CPU]}
    for name, full in zip(names, built):
        own = [device for device in ort.get_ep_devices() if device.ep_name == full]
        options.add_provider_for_devices(own if full else list(plugin_devices(name)), {})
    return {}


SOURCES: tuple[Callable[..., Any], ...] = (built_in, plugin_devices, add_providers)
"""The functions of this module that repro scripts contain."""
HEAD = f"""\
import importlib
from functools import cache
from typing import Any

CPU = {CPU!r}
"""
