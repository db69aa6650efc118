"""Stands in for the module of this name in Miles where no checkout of Miles is given: the same names for what the walkthrough
uses, the same settings, and the same calls to the wheel in the same order. Written for these tests from the calls that were seen."""

import os
from contextlib import contextmanager
from dataclasses import dataclass

from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from mooncake.structured_object_store import FieldSchema, MooncakeBundleTransfer, export_ref, import_ref

# Each setting of the store: its name in Miles, the variable that counts where it is not given, and what holds without either.
SETTINGS = {
    "local_hostname": ("local_hostname", "MOONCAKE_LOCAL_HOSTNAME", ""),
    "metadata_server": ("metadata_server", "MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"),
    "local_buffer_size": ("local_buffer_size", "MOONCAKE_LOCAL_BUFFER_SIZE", "32gb"),
    "protocol": ("protocol", "MOONCAKE_PROTOCOL", "rdma"),
    "rdma_devices": ("device_name", "MOONCAKE_DEVICE", ""),
    "master_server_addr": ("master_server_address", "MOONCAKE_MASTER", ""),
    "global_segment_size": ("global_segment_size", "MOONCAKE_GLOBAL_SEGMENT_SIZE", "8gb"),
}
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class ValueSpec:
    codec: str
    dtype: str | None = None


def size(text):
    text = str(text).lower().removesuffix("b")
    return int(float(text[:-1]) * UNITS[text[-1]]) if text[-1] in UNITS else int(text)


def settings(given, contributes):
    out = {}
    for name, (key, variable, otherwise) in SETTINGS.items():
        value = given[key] if key in given else os.environ.get(variable, otherwise)
        out[name] = size(value) if name.endswith("_size") else str(value)
    if not contributes:
        out["global_segment_size"] = 0
    return out


class Reference:
    """What the scheduler carries from the process that wrote to the one that reads."""

    def __init__(self, inner):
        self.inner = inner


StoreObjectRef = Reference


class Store:
    def __init__(self, arguments, contributes):
        self.given = arguments.mooncake_store_init_kwargs or {}
        self.copies = arguments.mooncake_replica_num
        store = MooncakeDistributedStore()
        code = store.setup(settings(self.given, contributes))
        if code:
            raise RuntimeError(f"setup of the store: {code}")
        self.bundles = MooncakeBundleTransfer(store, key_prefix="miles-object-store")

    def put(self, value, value_spec=None):
        config = None
        if self.copies > 1:
            config = ReplicateConfig()
            config.replica_num = self.copies
        chunk, fields = self.given.get("chunk_bytes"), schemas(value, value_spec)
        ref = self.bundles.put(value, type="dict", namespace="miles", chunk_bytes=chunk, config=config, field_schemas=fields)
        return Reference(export_ref(ref))

    @contextmanager
    def get(self, ref):
        value = self.bundles.get(import_ref(ref.inner), type="dict")
        try:
            yield value
        finally:
            MooncakeBundleTransfer.release_result(value)

    def remove(self, ref):
        self.bundles.cleanup_dataproto(import_ref(ref.inner))


def schemas(value, value_spec):
    if value_spec is None:
        return None
    out = {}
    for name, spec in value_spec.items():
        if name in value:
            notes = {"section": "meta_info" if spec.codec == "auto" else "non_tensor_batch"}
            if spec.dtype:
                notes["dtype"] = spec.dtype
            out[name] = FieldSchema(codec=spec.codec, nullable=False, metadata=notes)
    return out


def init_instance(args, *, contribute_segment=None):
    """One store for each process. Of a node's trainers the first gives memory, unless told otherwise."""
    if contribute_segment is None:
        contribute_segment = int(os.environ.get("LOCAL_RANK", 0)) == 0
    return Store(args, contribute_segment)
