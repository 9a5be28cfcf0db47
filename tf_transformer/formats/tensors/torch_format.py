"""Files that `torch.save` wrote, in the ZIP format (since PyTorch 1.6) and the one before it.

The ZIP archive holds, in a folder of any name, `data.pkl`, a pickle of the object, in which each
storage of values is a persistent id; and a stored member `data/KEY` for each storage.

The older format is a sequence: pickles of a magic number, of the format's version, of a description
of the machine, of the object, and of the list of keys; then for each key the number of values as 8
bytes, and the values. Values are little-endian.
"""

import re
from typing import Any

from tf_transformer.formats.tensors.pickle_machine import PickleMachine
from tf_transformer.formats.tensors.pickle_names import STORAGES, Name
from tf_transformer.formats.tensors.stored_file import ByteReader, FormatError, StoredFile
from tf_transformer.formats.tensors.tensor_file import Storage
from tf_transformer.formats.tensors.value_tree import check_tree
from tf_transformer.formats.tensors.zip_archive import Member
from tf_transformer.printable import shown

# The largest are the word counts that OpenNMT-py stores: 100 MB for 2 million words.
MAX_PICKLE_BYTES = 2**28
# Names of the same values: four in Marian models of Hugging Face with tied embeddings.
MAX_SHARING = 8
# The pickle of 0x1950a86a20f9469cfc6c, in protocols 1 to 5.
_MAGIC = re.compile(
    rb"L119547037146038801333356L\n\.|\x80.(\x95.{8})?\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.", re.DOTALL
)
_MAX_MAGIC_BYTES = 32
_VERSION = 1001
_MAX_KEY_LENGTH = 100  # PyTorch writes a number


def is_legacy_torch(file: StoredFile) -> bool:
    """Returns whether a file begins with the magic number of PyTorch before 1.6."""
    return _MAGIC.match(file.read(0, min(file.size, _MAX_MAGIC_BYTES))) is not None


def is_torch_zip(members: dict[str, Member]) -> bool:
    """Returns whether the members of an archive are those of PyTorch's format."""
    return any(name.endswith("/data.pkl") for name in members)


def read_torch_zip(file: StoredFile, members: dict[str, Member]) -> Any:
    """Returns the object in an archive of PyTorch.

    Args:
        file: the archive.
        members: its members.

    Raises:
        FormatError: the archive is damaged, or contains more than plain values and tensors.
    """
    (member, *others) = (item for name, item in members.items() if name.endswith("/data.pkl"))
    folder = member.name.removesuffix("data.pkl")
    if others or any(name.startswith(f"{folder}code/") for name in members):
        raise FormatError("contains a TorchScript program; expected tensors that torch.save wrote")
    if not all(item.stored for item in members.values()):
        raise FormatError("members are compressed, which PyTorch does not do")
    if member.size > MAX_PICKLE_BYTES:
        raise FormatError(f"expected a pickle of at most {MAX_PICKLE_BYTES:,} bytes")
    order = members.get(f"{folder}byteorder")
    if order is not None and file.read(order.begin, min(order.size, 10)) != b"little":
        raise FormatError("was written on a big-endian machine, not supported")
    storages: dict[str, Storage] = {}

    def find_storage(persistent_id: object) -> Storage:
        key, storage = _storage(file, persistent_id)
        values = members.get(f"{folder}data/{key}")
        if values is None or storage.num_bytes > values.size:
            raise FormatError(f"the values of storage {shown(key)} are missing or incomplete")
        storage.begin = values.begin
        return _same(storages, key, storage)

    reader = ByteReader(file, member.begin, member.begin + member.size)
    return _checked(PickleMachine(reader, find_storage).run(), file, storages)


def read_legacy_torch(file: StoredFile) -> Any:
    """Returns the object in a file of PyTorch before 1.6.

    Raises:
        FormatError: the file is damaged, or contains more than plain values and tensors.
    """
    storages: dict[str, Storage] = {}

    def find_storage(persistent_id: object) -> Storage:
        return _same(storages, *_storage(file, persistent_id))

    magic = _MAGIC.match(file.read(0, min(file.size, _MAX_MAGIC_BYTES)))
    reader = ByteReader(file, magic.end() if magic else 0, min(file.size, MAX_PICKLE_BYTES))
    if (version := PickleMachine(reader, find_storage).run()) != _VERSION:
        raise FormatError(f"expected version {_VERSION} of PyTorch's format, got {shown(version)}")
    PickleMachine(reader, find_storage).run()  # a description of the machine, which is not needed
    root = PickleMachine(reader, find_storage).run()
    keys = PickleMachine(reader, find_storage).run()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise FormatError("damaged: the list of storages")
    if len(set(keys)) != len(keys) or set(keys) != set(storages):
        raise FormatError("damaged: the list of storages is not that of the tensors")
    position = reader.position
    for key in keys:
        storage = storages[key]
        if int.from_bytes(file.read(position, 8), "little") != storage.size:
            raise FormatError(f"the values of storage {shown(key)} are incomplete")
        storage.begin = position + 8
        position = storage.begin + storage.num_bytes
    if position > file.size:
        raise FormatError(f"cut off: expected {position:,} bytes, the file has {file.size:,}")
    return _checked(root, file, storages)


def _storage(file: StoredFile, persistent_id: object) -> tuple[str, Storage]:
    """Returns key and storage of a persistent id, without the position of the values."""
    match persistent_id:
        # The older format has a sixth entry, which is only used for views that PyTorch 0.3 wrote.
        case ("storage", Name() as kind, str(key), str(), int(size)) | (
            "storage",
            Name() as kind,
            str(key),
            str(),
            int(size),
            None,
        ):
            if kind not in STORAGES:
                raise FormatError(f"contains values of {kind}, not supported")
            if size < 0 or len(key) > _MAX_KEY_LENGTH:
                raise FormatError(f"damaged: size or key of storage {shown(key)}")
            return key, Storage(file, STORAGES[kind], size, 0)
    raise FormatError(f"damaged: the description of a storage, {shown(persistent_id)}")


def _same(storages: dict[str, Storage], key: str, storage: Storage) -> Storage:
    """Returns the storage that has this key, which must not be described in two ways."""
    known = storages.setdefault(key, storage)
    if (known.dtype, known.size) != (storage.dtype, storage.size):
        raise FormatError(f"storage {shown(key)} has two types or sizes")
    return known


def _checked(root: Any, file: StoredFile, storages: dict[str, Storage]) -> Any:
    file.check_stored(sum(storage.num_bytes for storage in storages.values()))
    if check_tree(root) > MAX_SHARING * file.size:
        raise FormatError(f"contains the same values more than {MAX_SHARING} times")
    return root
