"""What looks like a secret among the words of a command is masked; what only sounds like one is kept."""

from __future__ import annotations

import shlex

import pytest

from laptime.questions.watch.run import mask_secrets


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("python train.py --hf-token abc --epochs 3", "python train.py --hf-token *** --epochs 3"),
        ("python train.py --token=abc -password x", "python train.py --token=*** -password ***"),
        ("env WANDB_API_KEY=0123 python train.py", "env WANDB_API_KEY=*** python train.py"),
        ("python train.py db.password=abc lr=0.1", "python train.py db.password=*** lr=0.1"),
        ("python train.py --login hf_abcdefghijkl", "python train.py --login ***"),
        ("python train.py AKIAIOSFODNN7EXAMPLE", "python train.py ***"),
        ("python train.py --data s3://me:word@host/set", "python train.py --data s3://***@host/set"),
        ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer ***'"),
        ("sh -c 'export HF_TOKEN=abc; python train.py'", "sh -c 'export HF_TOKEN=*** python train.py'"),
        ("sh -c 'python train.py --secret abc --epochs 3'", "sh -c 'python train.py --secret *** --epochs 3'"),
        ("python train.py --tokenizer bert --max-tokens 512", None),
        ("python train.py --author me --key-frames 3 --monkey 4", None),
        ("python train.py --token --epochs 3", None),
        ("torchrun --nproc-per-node 2 train.py --sk-learn yes", None),
    ],
)
def test_secrets_are_masked(command: str, kept: str | None) -> None:
    assert mask_secrets(shlex.split(command)) == tuple(shlex.split(command if kept is None else kept))
