#!/usr/bin/env python3
"""Writes tests/fixtures: GGUF files from a writer that shares nothing with the parser.

Needs: pip install gguf==0.19.0 numpy
Run from anywhere: python3 make_gguf_fixtures.py [DIRECTORY]

The .f32 files beside types.gguf hold the values that `gguf.quants.dequantize`
gives for each tensor, as little-endian f32. Output is the same on every run.
"""

import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

ROWS, COLUMNS = 6, 64
F16_FIELDS = {  # offsets of the f16 scales in a block
    GGMLQuantizationType.Q8_0: [0],
    GGMLQuantizationType.Q4_0: [0],
    GGMLQuantizationType.Q4_1: [0, 2],
    GGMLQuantizationType.Q5_0: [0],
    GGMLQuantizationType.Q5_1: [0, 2],
    GGMLQuantizationType.IQ4_NL: [0],
    GGMLQuantizationType.Q2_K: [80, 82],
    GGMLQuantizationType.Q3_K: [108],
    GGMLQuantizationType.Q4_K: [0, 2],
    GGMLQuantizationType.Q5_K: [0, 2],
    GGMLQuantizationType.Q6_K: [208],
    GGMLQuantizationType.IQ4_XS: [0],
}


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def one_tensor(path):
    writer = GGUFWriter(path, "llama")
    writer.add_tensor("w", np.arange(12, dtype=np.float32).reshape(3, 4) / 8)
    write(writer)


def random_blocks(rng, kind, rows, columns):
    """Random bytes with any finite f16 scales."""
    elements, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows, columns // elements, block_bytes), dtype=np.uint8)
    for offset in F16_FIELDS[kind]:
        scales = rng.integers(0, 0x7C00, (rows, columns // elements), dtype=np.uint16)
        scales |= rng.integers(0, 2, scales.shape, dtype=np.uint16) << 15
        scales[0, 0] = 1  # the smallest subnormal
        blocks[:, :, offset : offset + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def quantized(rng, kind):
    """Half the rows quantised from values, half random blocks; only the latter where gguf
    cannot quantise."""
    if GGML_QUANT_SIZES[kind][0] == 256:
        return random_blocks(rng, kind, ROWS // 2, 256)
    if kind == GGMLQuantizationType.IQ4_NL:
        return random_blocks(rng, kind, ROWS, COLUMNS)
    values = rng.normal(0, 3, (ROWS // 2, COLUMNS)).astype(np.float32)
    values[0, :32] = 0
    blocks = random_blocks(rng, kind, ROWS // 2, COLUMNS)
    return np.concatenate([quantize(values, kind), blocks])


def all_types(path):
    rng = np.random.default_rng(1)
    writer = GGUFWriter(path, "llama")
    tensors = {"F32": rng.normal(0, 1, (ROWS, COLUMNS)).astype(np.float32)}
    half = rng.integers(0, 0x10000, (ROWS, COLUMNS), dtype=np.uint16)
    half[(half & 0x7C00) == 0x7C00] = 0x7C00  # no NaN
    tensors["F16"] = half.view(np.float16)
    brain = rng.integers(0, 0x10000, (ROWS, COLUMNS), dtype=np.uint16)
    brain[(brain & 0x7F80) == 0x7F80] = 0xFF80  # no NaN
    tensors["BF16"] = brain.view(np.uint8).reshape(ROWS, -1)
    for kind in F16_FIELDS:
        tensors[kind.name] = quantized(rng, kind)
    for name, data in tensors.items():
        kind = GGMLQuantizationType[name]
        writer.add_tensor(f"{name.lower()}.weight", data, raw_dtype=None if name in ("F32", "F16") else kind)
        values = dequantize(data, kind).astype("<f4")
        assert values.shape in [(ROWS, COLUMNS), (ROWS // 2, 256)], (name, values.shape)
        (path.parent / f"types.{name.lower()}.f32").write_bytes(values.tobytes())
    write(writer)


def metadata(path):
    writer = GGUFWriter(path, "qwen35")
    writer.add_custom_alignment(64)
    writer.add_name("Zoo \N{GREEK SMALL LETTER ALPHA}\nsecond line")
    writer.add_uint8("zoo.u8", 255)
    writer.add_int8("zoo.i8", -128)
    writer.add_uint16("zoo.u16", 65535)
    writer.add_int16("zoo.i16", -32768)
    writer.add_uint32("zoo.u32", 4294967295)
    writer.add_int32("zoo.i32", -2147483648)
    writer.add_uint64("zoo.u64", 18446744073709551615)
    writer.add_int64("zoo.i64", -9223372036854775808)
    writer.add_float32("zoo.f32", 0.1)
    writer.add_float64("zoo.f64", 0.1)
    writer.add_float32("zoo.nan", float("nan"))
    writer.add_bool("zoo.true", True)
    writer.add_bool("zoo.false", False)
    writer.add_key_value("zoo.empty", "", GGUFValueType.STRING)
    writer.add_array("zoo.strings", [b"plain", b"\xff\xfe", "\N{SNOWMAN}".encode(), b"a\x00b"])
    writer.add_array("zoo.i32s", [11, 11, 10, 0])
    writer.add_array("zoo.f32s", [0.5, -1.5])
    writer.add_array("zoo.bools", [True, False, True])
    writer.add_array("zoo.nested", [[1, 2, 3], [-4]])
    writer.add_array("zoo.long", list(range(1000)))
    writer.add_key_value("zoo.u16s", [4, 4, 0, 4], GGUFValueType.ARRAY, GGUFValueType.UINT16)
    rng = np.random.default_rng(2)
    blocks = rng.integers(0, 256, (2, 292), dtype=np.uint8)
    writer.add_tensor("blk.0.q8_k.weight", blocks, raw_dtype=GGMLQuantizationType.Q8_K)
    writer.add_tensor("vector", np.array([1, 2, 3], dtype=np.float32))
    writer.add_tensor("four", np.arange(24, dtype=np.int32).reshape(1, 2, 3, 4))
    write(writer)


def main():
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests" / "fixtures"
    directory.mkdir(parents=True, exist_ok=True)
    one_tensor(directory / "one.gguf")
    all_types(directory / "types.gguf")
    metadata(directory / "metadata.gguf")


main()
