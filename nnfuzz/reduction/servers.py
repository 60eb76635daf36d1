"""The fork servers that workers of a reducer come from, and workers that wait for the next case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from nnfuzz.backend.deviation import Habits
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner, CompilerServers, limits_of
from nnfuzz.base.reading import Json
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox.events import Limits
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig

SERVICE = "nnfuzz.reduction.service:reduce_service"
LIMITS = Limits(seconds=120.0)
PRELOAD = ("numpy", "onnx", "onnx.numpy_helper", "torch", "nnfuzz.reduction.service")


def needed_operators(config: Mapping[str, Json]) -> dict[str, object]:
    """What of a case's configuration still matters once the case is there: the plug-ins' operators,
    and a criterion of the user's own.

    config, result: the written CaseConfig. Equal ones let workers start in a twentieth of the time.
    """
    plugins, tolerance = tuple(config.get("plugins", ())), str(config.get("tolerance", ""))
    return as_json(CaseConfig(plugins=plugins, tolerance=tolerance))


@dataclass(frozen=True, eq=False)
class Workers:
    """One with torch and onnx (nnfuzz.reduction.service), and one of the backend, if there is any:
    they serve one case at a time. rival: see nnfuzz.reduction.case.Problem.
    """

    service: Sandbox
    runner: BackendRunner | None
    rival: BackendRunner | None = None

    @property
    def sandboxes(self) -> list[Sandbox]:
        return [self.service, *(r.sandbox for r in (self.runner, self.rival) if r)]

    def fit(self, *specs: BackendSpec | None) -> bool:
        """Whether they are of these specifications, labels included."""
        own = [runner and runner.spec for runner in (self.runner, self.rival)]
        labels = [[spec and spec.label for spec in given] for given in (own, specs)]
        return own == [*specs] and labels[0] == labels[1]

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.close()


class Servers:
    """The fork servers of a reducer, and its workers: those of one finding serve the next one.

    config: the written CaseConfig of the cases. habits: of the backend, once they were asked for. A
    context manager.
    """

    def __init__(
        self,
        backend: BackendSpec | None,
        registry: BackendRegistry,
        config: Mapping[str, Json] | None = None,
        lent: tuple[ForkClient, CompilerServers] | None = None,
    ) -> None:
        """lent: fork servers that are there already, of the service and of compilers; they are left
        open.
        """
        self._registry, self._arguments = registry, {"config": needed_operators(config or {})}
        self._owns = lent is None
        self.service, self.compilers = lent or (
            ForkServer(PRELOAD, warm=(SERVICE, self._arguments)),
            CompilerServers(),
        )
        if backend:
            self.compilers.of(registry.get(backend.name), backend)
        self.habits: Habits | None = None
        self._idle: list[Workers] = []

    def workers(
        self,
        spec: BackendSpec | None,
        limits: Limits | None = None,
        rival: BackendSpec | None = None,
    ) -> Workers:
        """Some that were given back, or new ones. limits: of the backend's; default: its options'.

        Raises: RegistryError, OptionError, RunnerError if the backend cannot be used.
        """
        for idle in self._idle:
            if idle.fit(spec, rival):
                self._idle.remove(idle)
                for runner in filter(None, (idle.runner, idle.rival)):
                    runner.sandbox.limits = limits or limits_of(runner.options)
                return idle
        service = Sandbox(SERVICE, self._arguments, LIMITS, self.service)
        runners = (self.runner(made, limits) if made else None for made in (spec, rival))
        return Workers(service, *runners)

    def runner(self, spec: BackendSpec, limits: Limits | None = None) -> BackendRunner:
        """A new worker of a backend. Raises: as `workers`."""
        return self.compilers.runner(spec, self._registry, limits)

    @contextmanager
    def lent(self, spec: BackendSpec) -> Iterator[tuple[Sandbox, BackendRunner]]:
        """Workers for test cases and of the backend, for a while. Raises: as `workers`."""
        workers = self.workers(spec)
        assert workers.runner is not None
        try:
            yield workers.service, workers.runner
        finally:
            self.give_back(workers)

    def give_back(self, workers: Workers) -> None:
        """Keeps workers for the next case, unless they are at something."""
        if any(sandbox.busy for sandbox in workers.sandboxes):
            workers.close()
        else:
            self._idle.append(workers)

    def close(self) -> None:
        for workers in self._idle:
            workers.close()
        self._idle.clear()
        if self._owns:
            self.service.close()
            self.compilers.close()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()
