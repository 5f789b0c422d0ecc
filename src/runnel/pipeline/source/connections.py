"""A process's connections to a Kafka: kept in the module, because a worker lives longer than what it is sent."""

from __future__ import annotations

from runnel.client.cluster import Cluster
from runnel.client.security import Security
from runnel.pipeline.source.spec import Spec

_clusters: dict[tuple[str, Security], Cluster] = {}


def cluster_of(spec: Spec) -> Cluster:
    """One for each process."""
    known = spec.bootstrap, spec.security
    if known not in _clusters:
        _clusters[known] = Cluster(spec.bootstrap, security=spec.security, timeout=spec.patience)
    return _clusters[known]
