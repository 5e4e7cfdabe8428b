"""Cards that are not used: for each machine the one cause that is named, and a command that can be typed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from card_machines import NODE, OTHERS, UUID, card, for_processors, framework, machine, using

from laptime.model.machine import DeviceNode
from laptime.model.quantities import Missing
from laptime.questions.doctor.checkup import find_card_problems, find_unseen_cards

SHUT = replace(NODE, mode="0660", group="video", may_open=False)
NO = Missing("-")
UNSEEN = {"driver": NO, "cuda": NO}
AMD = card(maker="AMD", name="AMD Instinct MI300X", uuid=NO, cuda=NO, capability=NO, module="amdgpu")
INTEL = replace(AMD, maker="Intel", name="Intel Arc A770", module="i915")
BUSY = "CUDA-capable device(s) is/are busy or unavailable"
NO_CUDNN = "Cannot dlopen some GPU libraries: could not load libcudnn.so.9"
TWO_VERSIONS = {"NVIDIA": Missing("its library and its kernel module are of two versions")}
KFD = DeviceNode("/dev/kfd", "0660", "root", "render", may_open=False)
OLD_ARCHITECTURES = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"

# What is wrong; the machine; the cause that is named; words of what is said; words of the command.
CASES = {
    "a build for processors": (
        machine(card(), frameworks=(for_processors("torch"),)),
        "cpu build", "torch 2.13.0+cpu is a build for processors only", "pip install torch",
    ),
    "jax without its plugin": (
        machine(card(), frameworks=(for_processors("jax"),)),
        "cpu build", "jax 2.13.0+cpu is a build for processors only", 'pip install --upgrade "jax[cuda12]"',
    ),
    "jax on a newer driver": (
        machine(card(cuda="13.0"), frameworks=(for_processors("jax"),)),
        "cpu build", "jax", 'pip install --upgrade "jax[cuda13]"',
    ),
    "tensorflow-cpu": (
        machine(card(), frameworks=(for_processors("keras-tf"),)),
        "cpu build", "tensorflow", 'pip install --upgrade "tensorflow[and-cuda]"',
    ),
    "an old driver": (
        machine(card(cuda="11.4", driver="470.82")),
        "driver too old", "built for CUDA 12.8, and the driver 470.82 knows CUDA up to 11.4", "nvidia-driver",
    ),
    "a card newer than the build": (
        machine(card(capability="12.0"), frameworks=(framework(architectures=OLD_ARCHITECTURES),)),
        "card too new", "code for cards of 5.0 to 8.6, and this card is newer: 12.0", "pip install --upgrade torch",
    ),
    "a card older than the build": (
        machine(card(capability="3.7"), frameworks=(framework(architectures=OLD_ARCHITECTURES),)),
        "card too old", "this card is older: 3.7", "pip install 'torch<2.13'",
    ),
    "hidden by an empty variable": (
        machine(card(), variables={"CUDA_VISIBLE_DEVICES": ""}),
        "hidden", "CUDA_VISIBLE_DEVICES='' hides every card", "unset CUDA_VISIBLE_DEVICES",
    ),
    "hidden by a number out of range": (
        machine(card(), variables={"CUDA_VISIBLE_DEVICES": "1"}),
        "hidden", "names card 1, and there are 1, counted from 0", "unset CUDA_VISIBLE_DEVICES",
    ),
    "hidden by a stale UUID": (
        machine(card(), variables={"CUDA_VISIBLE_DEVICES": "GPU-bbbbbbbb-0000-0000-0000-000000000002"}),
        "hidden", "which is no card here", "unset CUDA_VISIBLE_DEVICES",
    ),
    "kept off by JAX's own variable": (
        machine(card(), frameworks=(framework("jax"),), variables={"JAX_PLATFORMS": "cpu"}),
        "hidden", "JAX_PLATFORMS='cpu' keeps JAX to other platforms", "unset JAX_PLATFORMS",
    ),
    "a container without it": (
        machine(card(reason="no NVML", **UNSEEN), nodes=(), container="docker"),
        "container", "there is no /dev/nvidia*", "docker run --gpus all",
    ),
    "podman without it": (
        machine(card(reason="no NVML", **UNSEEN), nodes=(), container="podman"),
        "container", "there is no /dev/nvidia*", "podman run --device nvidia.com/gpu=all",
    ),
    "nodes that may not be opened": (
        machine(card(), nodes=(SHUT,)),
        "permission", "may not open /dev/nvidia0 (mode 0660, owner root, group video)", "sudo usermod -aG video",
    ),
    "exclusive mode": (
        machine(card(processes=OTHERS), frameworks=(framework(reason=BUSY),)),
        "exclusive", "process 4711 has it", "nvidia-smi -i 0000:3b:00 -c DEFAULT",
    ),
    "memory held by another process": (
        machine(
            card(processes=OTHERS, memory_used_bytes=79_000_000_000),
            frameworks=(framework(reason="out of memory"),),
        ),
        "memory held", "process 4711 holds 79.0 of the card's 80.0 GB", "kill 4711",
    ),
    "a library on the path": (
        machine(
            card(), frameworks=(framework("keras-tf", reason=NO_CUDNN),),
            variables={"LD_LIBRARY_PATH": "/opt/cudnn8/lib"},
        ),
        "library shadowed", "comes before tensorflow's own", "unset LD_LIBRARY_PATH",
    ),
    "MIG mode without an instance": (
        machine(card(mig=True)),
        "mig", "is in MIG mode and has no instance", "nvidia-smi mig -i 0000:3b:00 -cgi 0 -C",
    ),
    "WSL without a driver in Windows": (
        machine(card(reason="no NVML", driver=NO), nodes=(), virtual="wsl"),
        "wsl", "there is no /dev/dxg", "wsl --update",
    ),
    "no driver at all": (
        machine(card(**UNSEEN, module=NO, reason="no driver holds it"), nodes=()),
        "no driver", "no driver holds this card", "nvidia-driver",
    ),
    "nouveau": (
        machine(card(**UNSEEN, module="nouveau", reason="nouveau holds it"), nodes=()),
        "no driver", "nouveau holds this card: the free driver for displays", "nvidia-driver",
    ),
    "a driver that was not loaded again": (
        machine(card(**UNSEEN, reason="-"), absent=TWO_VERSIONS),
        "driver mismatch", "of two versions", "sudo reboot",
    ),
    "a lost card": (
        machine(card(reason="the card was lost (NVML: GPU is lost)")),
        "card lost", "does not answer", "nvidia-smi --gpu-reset -i 0000:3b:00",
    ),
    "TensorFlow falls back": (
        machine(card(), frameworks=(framework("keras-tf", reason="is built for CUDA and finds no card or driver"),)),
        "fell back", "goes on with the processor without a word", "tensorflow[and-cuda]",
    ),
    "AMD, no permission": (
        machine(AMD, nodes=(KFD,)),
        "permission", "may not open /dev/kfd", "sudo usermod -aG render",
    ),
    "AMD, a build for CUDA": (
        machine(AMD, nodes=(replace(KFD, may_open=True),)),
        "other build", "a build for CUDA, and the card is AMD's", "ROCm",
    ),
    "Colab without a card": (
        machine(frameworks=(framework(),), nodes=(), variables={"COLAB_RELEASE_TAG": "release"}),
        "notebook", "this Colab runtime has no card", "Change runtime type",
    ),
    "nobody knows": (
        machine(card()),
        "unknown", "torch does not use this card: finds no device", "nvidia-smi",
    ),
}  # fmt: skip


@pytest.mark.parametrize("matter", CASES)
def test_one_cause_is_told_and_a_command(matter):
    """The first in the order of judgement."""
    here, cause, says, command = CASES[matter]
    (found,) = find_card_problems(here)
    assert found.cause == cause
    assert says in found.says
    assert command in found.command


def test_a_card_that_is_used_is_no_matter():
    assert find_card_problems(machine(card(), frameworks=(using(),))) == ()


def test_a_card_beside_one_that_is_used_is_told():
    """By its UUID, whatever its number: CUDA_VISIBLE_DEVICES names the other one."""
    second = card(uuid="GPU-cccccccc-0000-0000-0000-000000000003", bus="0000:5e:00")
    here = machine(card(), second, frameworks=(using(),), variables={"CUDA_VISIBLE_DEVICES": UUID})
    (found,) = find_card_problems(here)
    assert (found.about, found.cause) == ("NVIDIA H100 (0000:5e:00) in torch", "hidden")


def test_a_framework_that_tells_no_card_is_believed():
    """It has one, and there is one."""
    assert find_card_problems(machine(card(), frameworks=(using(uuid=""),))) == ()


def test_instances_stand_for_their_card():
    """A card that is cut up is used where its instance is."""
    instance = card(uuid="MIG-dddddddd-0000-0000-0000-000000000004", parent=UUID, mig=Missing("-"))
    here = machine(card(mig=True), instance, frameworks=(using(uuid="MIG-dddddddd-0000-0000-0000-000000000004"),))
    assert find_card_problems(here) == ()


def test_what_only_draws_is_no_matter():
    assert find_card_problems(machine(card(maker="ASPEED", computes=False))) == ()


def test_frameworks_are_not_asked_for_cards_that_they_have_no_build_for():
    """JAX has none for Intel's."""
    assert find_card_problems(machine(INTEL, frameworks=(for_processors("jax"),))) == ()
    (found,) = find_card_problems(machine(INTEL, frameworks=(for_processors("torch"),)))
    assert found.cause == "cpu build"


def test_a_framework_that_cannot_run_says_why():
    broken = replace(framework(), problem="ImportError: numpy.core.multiarray failed to import", devices=())
    (found,) = find_card_problems(machine(frameworks=(broken,)))
    assert (found.about, found.cause) == ("torch", "broken")
    assert "numpy" in found.says


def test_a_race_tells_of_cards_with_one_cause_together():
    """Eight cards and a build for processors are one line."""
    eight = [card(uuid=f"GPU-{number}", bus=f"0000:{number:02x}:00") for number in range(8)]
    (found,) = find_unseen_cards(machine(*eight, frameworks=(for_processors("torch"),)))
    assert found.says.startswith(
        "NVIDIA H100 (0000:00:00) and 7 more are not used in torch: torch 2.13.0+cpu is a build"
    )
    assert "pip install torch" in found.advice


def test_a_race_does_not_tell_who_chose_a_card_of_the_others():
    """One is used, and the other is left out by the variable; the doctor reports it all the same."""
    second = card(uuid="GPU-cccccccc-0000-0000-0000-000000000003", bus="0000:5e:00")
    here = machine(card(), second, frameworks=(using(),), variables={"CUDA_VISIBLE_DEVICES": UUID})
    assert find_unseen_cards(here) == ()
    assert len(find_card_problems(here)) == 1
