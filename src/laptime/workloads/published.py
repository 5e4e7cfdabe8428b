"""What the authors of the five experiments reported, read from published.toml next to this file."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from laptime.model.workload import Published, PublishedResult

SOURCES = {
    "scenes-cnn": "a Spanish article, TensorFlow 2.7, Keras",
    "cifar-cnn": "a Japanese article, TensorFlow 1.x, Keras",
    "cifar-mlp": "an English tutorial, TensorFlow, Keras",
    "pets-densenet": "arXiv 2309.02521, PyTorch",
    "plates-cnn": "a question in Chinese from Stack Overflow, Keras on Colab",
}


def read_published(name: str) -> Published:
    """Return the published results of one workload."""
    entry = _facts()[name]
    results = tuple(PublishedResult(**_as_fields(row)) for row in entry["results"])
    return Published(claim=entry["claim"], source=SOURCES[name], results=results)


def _facts() -> dict[str, Any]:
    text = resources.files("laptime.workloads").joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


MANY = {
    "lap_s",
    "step_ms",
    "accuracy",
    "val_accuracy",
    "loss",
    "busy_percent",
    "memory_gb",
    "power_w",
    "temperature_c",
}


def _as_fields(row: dict[str, Any]) -> dict[str, Any]:
    return {key: _as_tuple(value) if key in MANY else value for key, value in row.items()}


def _as_tuple(value: Any) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
