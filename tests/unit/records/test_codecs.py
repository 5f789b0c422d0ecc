import gzip
import random
import struct
import zlib

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard

from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records import Codec, compress, decompress
from runnel.records.codecs import GUESS, XERIAL_BLOCK

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog " * 20
NOISE = random.Random(20).randbytes(100_000)
LZ4_END = bytes(4)  # a block of no bytes
CONTENTS = {
    "nothing": b"",
    "one byte": b"x",
    "text": TEXT,
    "noise over several blocks": NOISE,
    "zeros that shrink far more than guessed": bytes(1_000_000),
}
every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
every_compressing_codec = pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.name)
every_content = pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())


def xerial(*blocks, version=b"\x00\x00\x00\x01" * 2):
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + version + framed


def raw_snappy(content):
    return bytes(cramjam.snappy.compress_raw(content))


def xerial_blocks(data):
    position = 16
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        yield data[position + 4 : position + 4 + length]
        position += 4 + length


def lz4_blocks(frame):
    """The blocks of a frame whose header has 7 bytes, each block with its length and its checksum, if any."""
    checksum = 4 if frame[4] & 0x10 else 0
    position = 7
    while (length := struct.unpack_from("<I", frame, position)[0] & 0x7FFFFFFF) > 0:
        end = position + 4 + length + checksum
        yield frame[position:end]
        position = end


# Round trips.


@every_codec
@every_content
def test_what_is_compressed_comes_back(codec, content):
    assert bytes(decompress(codec, compress(codec, content))) == content


@every_codec
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_can_be_compressed_and_decompressed(codec, kind):
    assert bytes(decompress(codec, kind(compress(codec, kind(TEXT))))) == TEXT


@every_compressing_codec
def test_text_becomes_smaller(codec):
    assert len(compress(codec, TEXT)) < len(TEXT) / 2


def test_without_a_codec_the_bytes_stay_as_they_are():
    assert compress(Codec.NONE, TEXT) == TEXT


def test_the_numbers_of_the_codecs_are_those_of_kafka():
    assert {codec.name: codec.value for codec in Codec} == {"NONE": 0, "GZIP": 1, "SNAPPY": 2, "LZ4": 3, "ZSTD": 4}


@pytest.mark.parametrize("codec", ["gzip", 5, None])
def test_an_unknown_codec_is_refused_with_the_known_ones(codec):
    with pytest.raises(InvalidBatch, match=r"unknown codec.*Codec\.GZIP"):
        compress(codec, TEXT)


# Gzip.


def test_gzip_is_read_by_the_standard_library():
    assert gzip.decompress(compress(Codec.GZIP, NOISE)) == NOISE


@pytest.mark.parametrize("level", [0, 1, 9])
def test_gzip_of_every_level_is_read(level):
    assert decompress(Codec.GZIP, gzip.compress(TEXT, level)) == TEXT


def test_gzip_of_several_members_is_read():
    assert decompress(Codec.GZIP, gzip.compress(TEXT) + gzip.compress(b"more")) == TEXT + b"more"


def test_gzip_with_a_wrong_checksum_is_corrupt():
    data = bytearray(gzip.compress(TEXT))
    data[-8] ^= 1  # the first byte of the CRC-32 in the trailer
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, data)


def test_zlib_without_the_gzip_header_is_corrupt():
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, zlib.compress(TEXT))


# Snappy.


def test_snappy_is_written_with_the_header_of_xerial():
    assert compress(Codec.SNAPPY, TEXT)[:16] == bytes.fromhex("82534e41505059000000000100000001")


def test_every_xerial_block_is_plain_snappy_of_32_kib_at_most():
    blocks = [snappy.uncompress(block) for block in xerial_blocks(compress(Codec.SNAPPY, NOISE))]
    assert [len(block) for block in blocks] == [XERIAL_BLOCK, XERIAL_BLOCK, XERIAL_BLOCK, 1_696]


def test_xerial_blocks_hold_the_content_in_its_order():
    assert b"".join(map(snappy.uncompress, xerial_blocks(compress(Codec.SNAPPY, NOISE)))) == NOISE


def test_raw_snappy_is_read():
    assert decompress(Codec.SNAPPY, raw_snappy(NOISE)) == NOISE


def test_xerial_snappy_of_another_block_size_is_read():
    data = xerial(raw_snappy(NOISE[:50_000]), raw_snappy(NOISE[50_000:]))
    assert decompress(Codec.SNAPPY, data) == NOISE


def test_xerial_snappy_with_a_little_endian_version_is_read():
    data = xerial(raw_snappy(TEXT), version=b"\x01\x00\x00\x00" * 2)
    assert decompress(Codec.SNAPPY, data) == TEXT


@pytest.mark.parametrize("length", [0, -1, 1_000, 2**31 - 1])
def test_a_xerial_block_whose_length_lies_is_corrupt(length):
    block = raw_snappy(b"abc")
    data = xerial() + struct.pack(">i", length) + block
    with pytest.raises(CorruptBatch, match=f"snappy block of {length:,} bytes in {len(block)}"):
        decompress(Codec.SNAPPY, data)


@pytest.mark.parametrize("size", range(8, 16))
def test_a_xerial_header_that_is_cut_is_corrupt(size):
    with pytest.raises(CorruptBatch, match="inside of its header"):
        decompress(Codec.SNAPPY, xerial()[:size])


def test_a_xerial_stream_that_is_cut_inside_of_a_block_is_corrupt():
    data = compress(Codec.SNAPPY, TEXT)
    for size in range(17, len(data)):
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, data[:size])


def test_raw_snappy_that_is_cut_is_corrupt():
    data = raw_snappy(TEXT)
    for size in range(len(data)):
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, data[:size])


# LZ4.


@pytest.mark.parametrize("content", [TEXT, NOISE], ids=["one block", "several blocks"])
def test_lz4_frames_have_independent_blocks(content):
    assert lz4.frame.get_frame_info(compress(Codec.LZ4, content))["block_linked"] is False


def test_every_lz4_block_can_be_read_without_the_one_before_it():
    content = TEXT * 200
    frame = compress(Codec.LZ4, content)
    alone = [lz4.frame.decompress(frame[:7] + block + LZ4_END) for block in lz4_blocks(frame)]
    assert len(alone) > 1
    assert b"".join(alone) == content


def test_lz4_frames_are_read_by_the_lz4_package():
    assert lz4.frame.decompress(compress(Codec.LZ4, NOISE)) == NOISE


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("sized", [True, False])
def test_lz4_frames_of_every_kind_are_read(linked, checksums, sized):
    data = lz4.frame.compress(
        NOISE + TEXT,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=linked,
        content_checksum=checksums,
        block_checksum=checksums,
        store_size=sized,
    )
    assert decompress(Codec.LZ4, data) == NOISE + TEXT


def test_an_lz4_frame_with_a_wrong_content_checksum_is_corrupt():
    data = bytearray(lz4.frame.compress(TEXT, content_checksum=True))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, data)


# Zstandard.


def test_zstandard_is_read_by_the_zstandard_package():
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(Codec.ZSTD, NOISE)) == NOISE


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_zstandard_frames_of_every_kind_are_read(sized, checksum):
    compressor = zstandard.ZstdCompressor(write_content_size=sized, write_checksum=checksum)
    assert decompress(Codec.ZSTD, compressor.compress(NOISE + TEXT)) == NOISE + TEXT


def test_a_zstandard_stream_of_several_frames_is_read():
    compressor = zstandard.ZstdCompressor()
    assert decompress(Codec.ZSTD, compressor.compress(TEXT) + compressor.compress(b"more")) == TEXT + b"more"


# The limit.


@every_compressing_codec
@pytest.mark.parametrize("size", [1, 4096, 4097, 100_000])
def test_content_of_exactly_the_limit_is_decompressed(codec, size):
    assert len(decompress(codec, compress(codec, NOISE[:size]), limit=size)) == size


@every_compressing_codec
@pytest.mark.parametrize("size", [1, 4096, 4097, 100_000])
def test_content_of_one_byte_over_the_limit_is_refused(codec, size):
    with pytest.raises(InvalidBatch, match=f"holds more than {size - 1:,} bytes when decompressed"):
        decompress(codec, compress(codec, NOISE[:size]), limit=size - 1)


@every_compressing_codec
def test_content_over_the_limit_is_not_called_corrupt(codec):
    with pytest.raises(InvalidBatch) as caught:
        decompress(codec, compress(codec, bytes(100_000)), limit=50_000)
    assert not isinstance(caught.value, CorruptBatch)


@every_compressing_codec
def test_the_refusal_over_the_limit_says_what_to_do(codec):
    with pytest.raises(InvalidBatch) as caught:
        decompress(codec, compress(codec, TEXT), limit=1)
    assert caught.value.hint == "send smaller batches"


@every_compressing_codec
def test_content_far_larger_than_guessed_is_still_limited(codec):
    data = compress(codec, bytes(4_000_000))
    limit = 4_000_000 - 1
    assert GUESS * len(data) < limit
    with pytest.raises(InvalidBatch, match="holds more than"):
        decompress(codec, data, limit=limit)


def test_snappy_that_claims_4_gib_is_refused_before_it_is_decompressed():
    with pytest.raises(InvalidBatch, match="holds more than 1,000 bytes"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f", limit=1_000)


def test_the_limit_counts_all_the_blocks_of_xerial_snappy():
    data = xerial(*[raw_snappy(bytes(600))] * 2)
    with pytest.raises(InvalidBatch, match="holds more than 1,000 bytes"):
        decompress(Codec.SNAPPY, data, limit=1_000)


# Damage.


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
def test_compressed_data_cut_at_any_byte_is_corrupt(codec):
    data = compress(codec, TEXT)
    for size in range(len(data)):
        with pytest.raises(CorruptBatch):
            decompress(codec, data[:size])


@every_compressing_codec
@pytest.mark.parametrize("data", [b"", b"\x01", b"no compressed data", b"\xff" * 100], ids=repr)
def test_data_that_was_never_compressed_is_corrupt(codec, data):
    with pytest.raises(CorruptBatch):
        decompress(codec, data)


@every_compressing_codec
def test_the_error_of_corrupt_data_names_the_codec(codec):
    with pytest.raises(CorruptBatch, match=f"^{codec.name.lower()} data cannot be decompressed: ."):
        decompress(codec, b"no compressed data")


@every_compressing_codec
def test_bytes_after_the_compressed_data_are_corrupt(codec):
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, TEXT) + b"more")
