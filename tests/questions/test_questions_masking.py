"""What looks like a secret among the words of a command is masked; what only sounds like one is kept."""

from __future__ import annotations

import shlex

import pytest

from laptime.model.secrets import hide, list_secrets, mask_secrets


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
        ("python train.py '--token=two words' -x", "python train.py --token=*** -x"),
        ("""python train.py '{"api_key": "abc", "lr": 1}'""", """python train.py '{"api_key": "***", "lr": 1}'"""),
        ("python train.py --tokenizer bert --max-tokens 512", None),
        ("python train.py --author me --key-frames 3 --monkey 4", None),
        ("python train.py --token --epochs 3", None),
        ("torchrun --nproc-per-node 2 train.py --sk-learn yes", None),
    ],
)
def test_secrets_are_masked(command: str, kept: str | None) -> None:
    assert mask_secrets(shlex.split(command)) == tuple(shlex.split(command if kept is None else kept))
    assert mask_secrets(mask_secrets(shlex.split(command))) == mask_secrets(shlex.split(command))


def test_what_a_program_prints_of_its_words_is_hidden():
    """A value of up to three letters would be found in any text, and stays."""
    secrets = list_secrets(["train.py", "--token", "abcd", "--password=abcdef", "s3://me:word@host", "--auth", "on"])
    assert secrets == ("me:word", "abcdef", "abcd")
    assert hide("--token abcd --password=abcdef: on s3://me:word@host", secrets) == (
        "--token *** --password=***: on s3://***@host"
    )
