"""Saved results: records, their list, and the references of proofs."""

from laptime.store.files import find, home_folder, list_records, load, new_id, records_folder, save
from laptime.store.references import load_reference, save_reference
from laptime.store.schema import decode, encode

__all__ = [
    "decode",
    "encode",
    "find",
    "home_folder",
    "list_records",
    "load",
    "load_reference",
    "new_id",
    "records_folder",
    "save",
    "save_reference",
]
