# SPDX-License-Identifier: Apache-2.0
"""Saves the same values from worlds of 1, 2 and 4 ranks, reads the files with h5py and compares; each loads in another world.

usage: checkpoint_worlds.py PROGRAM mpirun arguments…
"""
import json
import os
import subprocess
import sys
import tempfile

import h5py
import numpy

PROGRAM, MPIRUN = sys.argv[1], sys.argv[2:]


def world(ranks, *arguments):
    subprocess.run([*MPIRUN, "-np", str(ranks), PROGRAM, *arguments], check=True, timeout=100)


def datasets(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def check_layout(path):
    """Every dataset is contiguous and allocated; large ones start at 4 KiB; the manifest agrees with h5py."""
    with open(os.path.join(os.path.dirname(path), "MANIFEST.json")) as file:
        manifest = {d["name"]: d for d in json.load(file)["datasets"]}
    with h5py.File(path, "r") as file:
        for name, entry in manifest.items():
            dataset = file[name]
            assert dataset.chunks is None and dataset.dtype == numpy.dtype("<f4"), name
            assert dataset.id.get_offset() == entry["offset"], name
            assert dataset.id.get_storage_size() == entry["size"], name
            assert entry["size"] < 65536 or entry["offset"] % 4096 == 0, name
        attributes = dict(file["trainer"].attrs)
        assert attributes["seed"] == 0xFEDCBA9876543210 and attributes["precision"] == "fp32", attributes
        assert json.loads(attributes["labels"]) == ["anger", "joy", "\U0001f60e"], attributes
        return attributes["world"], len(manifest)


def check_background(ranks, buffer):
    """Saves 2, 3, 4, written while the values changed, are 102, 103, 104, which nothing disturbed: all of the file but the step's number."""
    with tempfile.TemporaryDirectory() as folder:
        world(ranks, "background", folder, str(buffer))
        for step in (2, 3, 4):
            one, two = (os.path.join(folder, f"step-{n:08d}", "checkpoint.h5") for n in (step, step + 100))
            assert os.path.getsize(one) == os.path.getsize(two)
            one, two = datasets(one), datasets(two)
            assert one.keys() == two.keys() and len(one) == 21
            for name, values in one.items():
                assert values.tobytes() == two[name].tobytes(), (ranks, buffer, step, name)
        assert sorted(os.listdir(folder)) == ["latest"] + [f"step-{n:08d}" for n in (2, 3, 4, 102, 103, 104)], os.listdir(folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        seen = {}
        for ranks in (1, 2, 4):
            step = str(100 * ranks)
            world(ranks, "save", folder, step)
            path = os.path.join(folder, f"step-{int(step):08d}", "checkpoint.h5")
            saved_world, count = check_layout(path)
            assert saved_world == ranks
            seen[ranks] = datasets(path)
            assert len(seen[ranks]) == count == 21, count
        for ranks in (2, 4):
            assert seen[ranks].keys() == seen[1].keys()
            for name, values in seen[1].items():
                assert values.tobytes() == seen[ranks][name].tobytes(), (ranks, name)
        weight = seen[1]["model/bert.encoder.layer.0.intermediate.dense.weight"]
        assert weight.shape == (437, 96) and abs(weight.std() - 1) < 0.05, weight.shape
        world(4, "load", folder, "100")
        world(2, "load", folder, "400")
        world(1, "load", folder, "400")
    for ranks in (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            world(ranks, "fail", folder)
    for ranks, buffer in ((2, 0), (3, 20000), (4, 1 << 30)):
        check_background(ranks, buffer)
    print("equal datasets from 1, 2 and 4 ranks, and from saves in the background")


main()
