# SPDX-License-Identifier: Apache-2.0
"""Files as torch.save writes them, by Python's pickle and zipfile alone: the pickle's imports are stand-ins of torch's names."""
import collections
import contextlib
import io
import pickle
import sys
import types
import zipfile

DTYPES = {"FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "<u2", "LongStorage": "<i8", "DoubleStorage": "<f8"}


def _rebuild_tensor_v2(*_):
    raise AssertionError("a stand-in is never called")


def _stand_ins():
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in DTYPES:
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    utils._rebuild_tensor_v2, torch._utils = _rebuild_tensor_v2, utils
    _rebuild_tensor_v2.__module__ = "torch._utils"
    return {"torch": torch, "torch._utils": utils}


MODULES = _stand_ins()


@contextlib.contextmanager
def torch_names():
    """torch can be imported, as far as pickle looks."""
    before = {name: sys.modules.get(name) for name in MODULES}
    sys.modules.update(MODULES)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class Storage:
    """Bytes of one type; tensors are views of them."""

    def __init__(self, array, kind="FloatStorage", elements=None):
        import numpy

        flat = numpy.ascontiguousarray(array).reshape(-1).astype(DTYPES[kind])
        self.kind, self.bytes, self.key = kind, flat.tobytes(), None
        self.elements = flat.size if elements is None else elements


class Tensor:
    def __init__(self, storage, size, stride, offset=0):
        self.arguments = (storage, offset, tuple(size), tuple(stride))

    def __reduce_ex__(self, _):
        return MODULES["torch._utils"]._rebuild_tensor_v2, (*self.arguments, False, collections.OrderedDict())


def strides(shape):
    found, step = [], 1
    for size in reversed(shape):
        found.insert(0, step)
        step *= size
    return found


def whole(array, kind="FloatStorage"):
    """A tensor that is all of a storage of its own."""
    return Tensor(Storage(array, kind), array.shape, strides(array.shape))


def bf16_bits(array):
    """float32 rounded to bfloat16 (nearest, ties to even), as uint16."""
    bits = array.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


class _Pickler(pickle.Pickler):
    def __init__(self, file, protocol, storages):
        super().__init__(file, protocol)
        self.storages = storages

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        if obj.key is None or self.storages.get(obj.key) is not obj:
            obj.key = str(len(self.storages))
            self.storages[obj.key] = obj
        return "storage", getattr(MODULES["torch"], obj.kind), obj.key, "cpu", obj.elements


def state_dict(tensors, metadata=True):
    """What Module.state_dict() returns: an OrderedDict with an attribute."""
    found = collections.OrderedDict(tensors)
    if metadata:
        found._metadata = collections.OrderedDict([("", {"version": 1}), ("classifier", {"version": 1})])
    return found


def pickled(value, protocol=2):
    """data.pkl, and the storages by key."""
    file, storages = io.BytesIO(), {}
    with torch_names():
        _Pickler(file, protocol, storages).dump(value)
    return file.getvalue(), storages


def archive_write(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def entries_make(value, protocol=2, folder="pytorch_model"):
    data, storages = pickled(value, protocol)
    entries = {f"{folder}/data.pkl": data, f"{folder}/byteorder": b"little"}
    entries.update({f"{folder}/data/{key}": storage.bytes for key, storage in storages.items()})
    entries[f"{folder}/version"] = b"3\n"
    return entries


def torch_save(path, value, protocol=2, folder="pytorch_model"):
    return archive_write(path, entries_make(value, protocol, folder))
