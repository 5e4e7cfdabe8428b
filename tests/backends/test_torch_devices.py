"""What PyTorch reports of itself and its devices; cards are literal, since no test needs one."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
from torch.cuda import nccl

from laptime.engine.backends.torch import devices
from laptime.model.quantities import Missing


def raising(error):
    def function(*_given):
        raise error

    return function


@pytest.mark.parametrize(
    ("expected", "number"), [("9.10.2", 91002), ("9.26.0", 92600), ("8.9.2", 8902), ("9.1.0", 90100)]
)
def test_cudnn_is_told_as_people_write_it(expected, number):
    """Its number has one more digit since version 9."""
    assert expected == devices.cudnn_words(number)


@pytest.mark.parametrize(
    ("expected", "configuration"),
    [
        ("3.13.3", "PyTorch built with:\n  - Intel(R) MKL-DNN v3.13.3 (Git Hash b38f97eb6f)\n  - OpenMP 201511"),
        ("3.8", "  - oneDNN v3.8 (Git Hash 1)"),
        (None, "PyTorch built with:\n  - OpenMP 201511"),
    ],
)
def test_onednn_is_found_in_the_words_of_the_build(expected, configuration):
    """By its former name and its own; a build without it reports none."""
    assert expected == devices.find_onednn(configuration)


def test_pytorch_comes_first_and_every_version_is_one():
    """Whatever this build uses."""
    versions = devices.list_versions()
    assert next(iter(versions)) == "torch"
    assert versions["torch"] == str(torch.__version__)
    assert versions.get("cuda") == torch.version.cuda
    assert all(re.match(r"\d+(\.\d+)+", each) for each in versions.values())


def test_a_build_for_processors_only_tells_neither_cuda_nor_nccl(monkeypatch):
    """What is not there is left out, never None or 0."""
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: None)
    monkeypatch.setattr(nccl, "version", raising(AttributeError("module 'torch._C' has no attribute '_nccl_version'")))
    assert devices.list_versions().keys() <= {"torch", "onednn"}


def test_a_cudnn_that_does_not_fit_is_told_and_ends_nothing(monkeypatch):
    """Another library on the path is the usual cause; the first sentence names both versions."""
    says = "cuDNN version incompatibility: compiled against (9, 1, 0) but found (8, 9, 2). PyTorch comes with its own. "
    monkeypatch.setattr(torch.backends.cudnn, "version", raising(RuntimeError(says)))
    told = devices.list_versions()["cudnn"]
    assert told == "not usable: cuDNN version incompatibility: compiled against (9, 1, 0) but found (8, 9, 2)"


def test_rocm_goes_by_its_own_names(monkeypatch):
    """AMD's libraries answer where NVIDIA's would."""
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "6.4.1", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 3_004_000)
    monkeypatch.setattr(nccl, "version", lambda: (2, 22, 3))
    versions = devices.list_versions()
    assert {"hip": "6.4.1", "miopen": "3004000", "rccl": "2.22.3"}.items() <= versions.items()
    assert not {"cuda", "cudnn", "nccl"} & versions.keys()


CARD = {"name": "NVIDIA GeForce RTX 2060", "major": 7, "minor": 5, "total_memory": 6 << 30, "multi_processor_count": 30}


@pytest.fixture
def card(monkeypatch):
    """Let PyTorch tell of one card, which is not there to be tried."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _index: SimpleNamespace(**CARD))
    monkeypatch.setattr(devices, "_try_product", lambda _name: (True, None))


def cuda_device():
    (found,) = [each for each in devices.list_devices() if each.kind == "cuda"]
    return found


def test_a_card_tells_its_capability_memory_and_driver(card, monkeypatch):
    """The driver's version is NVIDIA's library's to tell."""
    monkeypatch.setattr("pynvml.nvmlInit", lambda: None)
    monkeypatch.setattr("pynvml.nvmlSystemGetDriverVersion", lambda: "570.86.15")
    found = cuda_device()
    assert (found.label, found.memory_bytes) == ("NVIDIA GeForce RTX 2060", 6 << 30)
    assert {"capability": "7.5", "driver": "570.86.15", "multiprocessors": "30"}.items() <= found.details.items()
    assert not {"bf16", "tf32"} & set(found.features)


def test_a_card_tells_which_one_it_is(card, monkeypatch):
    """The management library counts cards in another order: UUID and bus are what both know."""
    told = {"uuid": "1F0A-2B", "pci_domain_id": 0, "pci_bus_id": 0x3B, "pci_device_id": 0}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _index: SimpleNamespace(**CARD, **told))
    assert {"uuid": "1f0a-2b", "bus": "0000:3b:00"}.items() <= cuda_device().details.items()


def test_a_card_of_an_older_pytorch_tells_less(card):
    assert not {"uuid", "bus"} & cuda_device().details.keys()


def test_a_card_whose_driver_does_not_answer_is_a_card_still(card, monkeypatch):
    """Containers and ROCm have no such library."""
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlInit", raising(pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)))
    assert "driver" not in cuda_device().details


def test_intels_cards_tell_what_this_pytorch_knows(monkeypatch):
    """Older ones have no such figures."""
    known = SimpleNamespace(total_memory=16 << 30, driver_version="1.6.31294")
    answers = {0: known, 1: SimpleNamespace()}
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 2)
    monkeypatch.setattr(torch.xpu, "get_device_name", lambda _index: "Intel Arc A770")
    monkeypatch.setattr(torch.xpu, "get_device_properties", answers.get)
    new, old = [each for each in devices.list_devices() if each.kind == "xpu"]
    assert (new.memory_bytes, new.details) == (16 << 30, {"driver": "1.6.31294"})
    assert (old.memory_bytes, old.details) == (Missing("this PyTorch does not tell"), {})
