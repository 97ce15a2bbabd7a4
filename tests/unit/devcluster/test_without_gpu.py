"""Stand-ins for the libraries of a GPU, from what readelf says of torch's."""

import pytest
from dev.images.without_gpu import assembly, missing

# As binutils 2.40 writes it for torch 2.13.
LISTING = """\
 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libcublas.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libnccl.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libnvshmem_host.so.3]
 0x0000000000000001 (NEEDED)             Shared library: [libc10.so]
 0x0000000000000001 (NEEDED)             Shared library: [libcuda.so.1]
  0x0010: Version: 1  File: libcudart.so.13  Cnt: 1
  0x0020:   Name: libcudart.so.13  Flags: none  Version: 4
  0x0030: Version: 1  File: libnvshmem_host.so.3  Cnt: 1
  0x0040:   Name: NVSHMEM  Flags: none  Version: 5
     5: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND nvshmem_free@NVSHMEM (5)
     6: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND cublasSgetrfBatched@libcublas.so.13 (3)
     7: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND cudaMalloc@libcudart.so.13 (4)
     8: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND ncclAllReduce
     9: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memcpy@GLIBC_2.14 (12)
    10: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND _ZN3c105ErrorC1Ev
    11: 00000000000a1b20    64 FUNC    GLOBAL DEFAULT   14 cudaIsDefinedHere
"""


def test_each_library_that_is_missing_gets_what_torch_asks_of_it() -> None:
    found = missing([LISTING])

    assert found.keys() == {"libcudart.so.13", "libcublas.so.13", "libnccl.so.2", "libnvshmem_host.so.3"}
    assert found["libcublas.so.13"].functions == {"cublasSgetrfBatched"}


def test_functions_have_the_version_that_torch_asks_for() -> None:
    found = missing([LISTING])["libnvshmem_host.so.3"]

    assert (found.version, found.functions) == ("NVSHMEM", {"nvshmem_free"})


def test_functions_without_a_version_are_found_wherever_they_are() -> None:
    assert missing([LISTING])["libcudart.so.13"].functions == {"cudaMalloc", "ncclAllReduce"}


@pytest.mark.parametrize(
    ("function", "answer"),
    [("cudaGetDeviceCount", "code"), ("cudaGetErrorString", "text"), ("cudaGetErrorName", "text")],
)
def test_a_function_answers_with_an_error_and_one_that_gives_a_text_with_a_text(
    function: str, answer: str
) -> None:
    assert f".set {function}, {answer}\n" in "".join(assembly([function]))
