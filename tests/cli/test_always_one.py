# SPDX-License-Identifier: Apache-2.0
"""keep: 1 on four ranks: at every instant a complete checkpoint is there. The folder is watched by inotify; at each event and in between,
one must be whole: its manifest valid by its own check, its file of the size that the manifest gives."""
import ctypes
import json
import os
import select
import struct
import time
import unittest

import shim
import support as s

IN_CREATE, IN_DELETE, IN_MOVED = 0x100, 0x200, 0x40 | 0x80
IN_NONBLOCK = os.O_NONBLOCK


class Watch:
    """What happens in one folder, by inotify(7)."""

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(IN_NONBLOCK)
        if self.fd < 0 or self.libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_CREATE | IN_DELETE | IN_MOVED) < 0:
            s.skip(f"inotify does not work: {os.strerror(ctypes.get_errno())}")

    def names(self, wait=0.0):
        """Names of the entries that came, went or were renamed since the last call."""
        if not select.select([self.fd], [], [], wait)[0]:
            return []
        data, found = os.read(self.fd, 1 << 16), []
        while data:
            _, _, _, size = struct.unpack_from("iIII", data)
            found.append(data[16:16 + size].split(b"\0")[0].decode())
            data = data[16 + size:]
        return found

    def close(self):
        os.close(self.fd)


def whole(path):
    """The step of a checkpoint folder that is complete, or None. One that goes while it is looked at is not."""
    try:
        with open(os.path.join(path, "MANIFEST.json"), "rb") as file:
            manifest = json.loads(file.read())
        if os.path.getsize(os.path.join(path, manifest["file"])) == manifest["size"] and "check" in manifest:
            return manifest["step"]
    except (OSError, ValueError, KeyError):
        pass
    return None


def complete(folder):
    """Steps that are there whole, as one look sees them; a listing that a rename or a removal overtook is looked at again."""
    for _ in range(20):
        names = sorted((n for n in os.listdir(folder) if n.startswith("step-")), reverse=True)
        found = [step for step in (whole(os.path.join(folder, name)) for name in names) if step is not None]
        if found and len(found) == len(names):
            return found
    return found


class AlwaysOne(s.Case):
    def setUp(self):
        super().setUp()
        s.task_make(self.path("data"), rows=(32, 8, 8))
        self.job = s.job_write(self.path("job.yaml"), self.path("data"), self.path("o"), train__epochs=3, train__batch=8, train__parts=4,
                               checkpoints__keep=1, checkpoints__every=1, log__tensorboard=False, log__level="warn", export__to=[])
        self.folder_of = os.path.join(self.path("o"), "checkpoints")

    def watched(self, process, first):
        """Looks until the process has ended; the steps that were seen."""
        self.assertTrue(s.wait_for(lambda: complete(self.folder_of), process) or first, "no checkpoint came")
        watch, seen, looks, newest = Watch(self.folder_of), set(), 0, 0
        while process.poll() is None:
            events = watch.names(0.0005)
            found = complete(self.folder_of)
            looks += 1
            self.assertTrue(found, f"no complete checkpoint; events {events}, there {os.listdir(self.folder_of)}")
            self.assertGreaterEqual(found[0], newest, "the newest went")
            newest = found[0]
            seen.update(found)
        watch.close()
        return seen, looks

    def test_at_every_instant(self):
        process = s.start("run", self.job, ranks=4)
        seen, looks = self.watched(process, False)
        self.assertExit(s.finish(process), 0)
        self.assertGreater(len(seen), 3, f"{looks} looks saw steps {sorted(seen)}")
        kept = s.checkpoint_names(self.path("o"))
        self.assertLessEqual(len(kept), 2, "one, and the best")
        print(f"{looks} looks, {len(seen)} steps", flush=True)

    def test_slowly(self):
        """Each rename, removal and link takes its time: what is between them is looked at often."""
        env = shim.environment(self.folder, "rename,unlink,link,mkdir", at=1, do="delay:15", count="all", rank=0)
        process = s.start("run", self.job, "--train.epochs", 2, ranks=4, env=env)
        seen, looks = self.watched(process, False)
        self.assertExit(s.finish(process), 0)
        self.assertGreater(looks, 100)
        self.assertGreater(len(seen), 3)

    def test_killed_at_any_moment(self):
        """All four ranks end at once, again and again: each time a complete checkpoint stays, and the run gets on to its end."""
        newest, killed = 0, 0
        for n in (9, 40, 77, 118, 160, 23):
            env = shim.environment(self.path("o") if os.path.isdir(self.path("o")) else self.folder, "rename,unlink,link,mkdir,fsync", at=n,
                                   do="kill-before", rank=0)
            result = s.run("run", self.job, ranks=4, env=env)
            killed += result.rc != 0
            found = complete(self.folder_of) if os.path.isdir(self.folder_of) else []
            self.assertTrue(found or not newest, f"after call {n}: {result}")
            self.assertGreaterEqual(found[0] if found else 0, newest)
            newest = found[0] if found else 0
        self.assertGreater(killed, 2)
        self.train(self.job, ranks=4)
        self.assertEqual(complete(self.folder_of)[0], 12)
        self.assertEqual([n for n in os.listdir(self.folder_of) if n.startswith(".")], [".home"])


if __name__ == "__main__":
    s.main()
