"""On which file system a folder is, from a table of mounts as the kernel writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.machine.look import find_filesystem
from laptime.model.quantities import Missing

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/data\040sets rw - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /mnt rw - tmpfs tmpfs rw
32 30 0:42 / /mnt/data\040sets/fast rw shared:9 master:2 - xfs /dev/sdb1 rw
33 22 0:43 / /twice rw - ext4 /dev/sdc1 rw
34 22 0:44 / /twice rw - fuse.sshfs me@there rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me/data", "ext4"),
        ("/mnt/data sets/images", "nfs4"),
        ("/mnt/data sets/fast/images", "xfs"),
        ("/mnt/else", "tmpfs"),
        ("/mntelse", "ext4"),
        ("/twice/images", "fuse.sshfs"),
    ],
)
def test_the_innermost_mount_is_named(tmp_path, folder, kind):
    """Of two at one place the one that was mounted last is seen."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTS)
    assert find_filesystem(Path(folder), tmp_path) == kind


def test_where_there_is_no_table_nothing_is_told(tmp_path):
    assert isinstance(find_filesystem(tmp_path, tmp_path), Missing)


def test_this_machine_tells(tmp_path):
    assert isinstance(find_filesystem(tmp_path), str)
