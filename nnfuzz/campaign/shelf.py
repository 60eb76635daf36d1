"""Where the support tables of a campaign are kept: a file per backend and exporter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.support import Support, SupportCache, specs_digest
from nnfuzz.execute.backend import BackendOptions
from nnfuzz.testcase.case import refusal

_GENERAL = tuple(BackendOptions.__dataclass_fields__)  # limits, not behaviour


class Shelf:
    """Support tables as a campaign has them, with keys "EXPORTER:SIGNATURE", and on the disk.

    A file holds what is known with one exporter and opset, so that campaigns with other exporters
    beside it share it.
    """

    def __init__(
        self,
        cache: SupportCache,
        config: CampaignConfig,
        versions: Mapping[str, Mapping[str, str]],
        libraries: Mapping[str, str],
    ) -> None:
        """versions: of the compilers by backend. libraries: versions of what makes test cases."""
        self._cache = cache
        self._versions = versions
        self._opsets = {name: config.case.only(name).opset for name in config.case.exporters}
        about = {
            "specs": specs_digest(config.case.plugins),
            "libraries": dict(libraries),
            "levels": list(config.levels),
        }
        self._paths = {}
        for spec in config.backends:
            options = {k: v for k, v in spec.options.items() if k not in _GENERAL}
            plain = replace(spec, options=options)
            for name, opset in self._opsets.items():
                basis = {**about, "exporter": name, "opset": opset}
                path = cache.path(plain, versions[spec.name], basis)
                self._paths[spec.name, name] = path

    def load(self) -> dict[str, Support]:
        """What campaigns may rely on, by backend."""
        tables: dict[str, Support] = {}
        for (backend, exporter), path in self._paths.items():
            table = tables.setdefault(backend, Support(backend))
            found = self._cache.load(path, backend).entries
            table.entries |= {refusal(exporter, key): entry for key, entry in found.items()}
        return tables

    def save(self, tables: Mapping[str, Support], keys: Iterable[str]) -> None:
        """keys: all that the campaign may generate."""
        keys = list(keys)
        for (backend, exporter), path in self._paths.items():
            mark = refusal(exporter, "")
            entries = {
                key.removeprefix(mark): entry
                for key, entry in tables[backend].entries.items()
                if key.startswith(mark)
            }
            about = {
                "backend": backend,
                "versions": self._versions[backend],
                "exporter": exporter,
                "opset": self._opsets[exporter],
                "signatures": sum(key.startswith(mark) for key in keys),
            }
            self._cache.save(path, Support(backend, entries), about)
