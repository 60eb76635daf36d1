"""The fork servers that workers of a reducer come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from nnfuzz.execute.deviation import Habits
from nnfuzz.execute.forkserver import ForkServer
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.execute.runner import fork_server_of
from nnfuzz.testcase.case import CaseConfig

SERVICE = "nnfuzz.reduction.service:reduce_service"
PRELOAD = ("numpy", "onnx", "onnx.numpy_helper", "torch", "nnfuzz.reduction.service")


def operators_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a case's configuration still matters once the case is there: the plug-ins' operators.

    config, result: CaseConfig.to_json(). Equal ones let workers start in a twentieth of the time.
    """
    return CaseConfig(plugins=tuple(config.get("plugins", ()))).to_json()


class Servers:
    """The fork servers of a reducer; one for all findings of a backend saves their start.

    config: CaseConfig.to_json() of the cases. habits: of the backend, once they were asked for. A
    context manager.
    """

    def __init__(
        self,
        backend: BackendSpec | None,
        registry: BackendRegistry,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.service = ForkServer(PRELOAD, warm=(SERVICE, {"config": operators_of(config or {})}))
        self.backend = fork_server_of(registry.get(backend.name)) if backend else None
        self.habits: Habits | None = None

    def close(self) -> None:
        self.service.close()
        if self.backend is not None:
            self.backend.close()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()
