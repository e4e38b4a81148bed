//! Files that are meant to hurt a reader. Each is typed out as bytes here, from
//! nothing that the parser defines; each must end in one line that names the file,
//! the offset and the field, without allocating for what the file only claims.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod allocations;

use std::{io::Write, sync::Arc};

use phobos_gguf::{GgufFile, OpenOptions, render_json, render_text};

const U8: u32 = 0;
const U32: u32 = 4;
const I32: u32 = 5;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

const TYPE_F32: u32 = 0;
const TYPE_Q4_K: u32 = 12;
const TYPE_Q8_K: u32 = 15;
const TYPE_I8: u32 = 24;

/// The bytes of a file, appended field by field.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn header(tensors: u64, keys: u64) -> Bytes {
        Bytes(vec![0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0]).u64(tensors).u64(keys)
    }
    fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend_from_slice(bytes);
        self
    }
    fn u32(self, value: u32) -> Bytes {
        self.raw(&value.to_le_bytes())
    }
    fn u64(self, value: u64) -> Bytes {
        self.raw(&value.to_le_bytes())
    }
    fn string(self, text: &[u8]) -> Bytes {
        self.u64(text.len() as u64).raw(text)
    }
    fn key(self, name: &str, kind: u32) -> Bytes {
        self.string(name.as_bytes()).u32(kind)
    }
    fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Bytes {
        let start = self.string(name.as_bytes()).u32(dims.len() as u32);
        dims.iter().fold(start, |bytes, dim| bytes.u64(*dim)).u32(kind).u64(offset)
    }
    /// Zeros up to a multiple of 32, then `data` bytes.
    fn data(mut self, data: usize) -> Bytes {
        let start = self.0.len().div_ceil(32) * 32;
        self.0.resize(start + data, 0);
        self
    }
}

fn parse(bytes: &[u8]) -> Result<GgufFile, String> {
    GgufFile::parse("hostile.gguf", Arc::new(bytes.to_vec())).map_err(|error| error.to_string())
}

/// The error for `bytes`, without the file's name; also through a map and a read.
#[track_caller]
fn refused(bytes: Bytes) -> String {
    let bytes = bytes.0;
    assert!(bytes.len() < 4096);
    let (result, peak) = allocations::peak(|| parse(&bytes));
    let error = result.expect_err("the file was accepted");
    assert!(peak < 64 * 1024, "{peak} bytes were held for a file of {}: {error}", bytes.len());

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let path = file.path().display().to_string();
    let bare = error.strip_prefix("hostile.gguf: ").expect("names the file").to_owned();
    for mmap in [true, false] {
        let error = GgufFile::open(file.path(), OpenOptions { mmap }).unwrap_err().to_string();
        assert_eq!(error, format!("{path}: {bare}"));
    }
    assert!(!bare.contains(char::is_control), "{bare:?}");
    assert!(bare.len() < 400, "{bare}");
    bare
}

/// A file with one tensor of these dims that has `data` bytes of data.
fn one_tensor(dims: &[u64], kind: u32, data: usize) -> Bytes {
    Bytes::header(1, 0).tensor("w", dims, kind, 0).data(data)
}

#[test]
fn a_plain_file_typed_out_as_bytes_is_accepted() {
    let file = parse(&one_tensor(&[4, 2], TYPE_F32, 32).0).unwrap();
    assert_eq!(file.tensors()[0].range, 96..128);
    assert_eq!(file.tensors()[0].rows_shape(), [2, 4]);
    let mut version_2 = one_tensor(&[4, 2], TYPE_F32, 32).0;
    version_2[4] = 2;
    assert_eq!(parse(&version_2).unwrap().version(), 2);
}

#[test]
fn the_memory_count_sees_what_is_asked_for() {
    let (_, peak) = allocations::peak(|| Vec::<u8>::with_capacity(1 << 20));
    assert!((1 << 20..1 << 21).contains(&peak), "{peak}");
}

// G1: what is not GGUF, and layouts this reader does not know.

#[test]
fn another_magic_shows_the_four_bytes() {
    let mut bytes = one_tensor(&[4], TYPE_F32, 16);
    bytes.0[..4].copy_from_slice(b"XXXX");
    assert_eq!(refused(bytes), "at byte 0: magic: wanted \"GGUF\", found \"XXXX\": not a GGUF file");
    assert_eq!(
        refused(Bytes(vec![0x7f, b'E', b'L', b'F', 2, 1, 1])),
        "at byte 0: magic: wanted \"GGUF\", found \"\\u{7f}ELF\": not a GGUF file"
    );
    assert_eq!(
        refused(Bytes(b"GG".to_vec())),
        "at byte 0: magic: wanted \"GGUF\", found \"GG\": not a GGUF file"
    );
    assert_eq!(refused(Bytes(vec![])), "at byte 0: magic: wanted \"GGUF\", found \"\": not a GGUF file");
}

#[test]
fn other_versions_are_refused_big_endian_included() {
    for (version, shown) in [
        ([1, 0, 0, 0], "2 or 3 (little endian), found 1"),
        ([4, 0, 0, 0], "2 or 3 (little endian), found 4"),
        ([0, 0, 0, 9], "2 or 3 (little endian), found 150994944"),
        ([0, 0, 0, 3], "2 or 3, found 3 in big-endian order: convert the file to little endian"),
    ] {
        let mut bytes = one_tensor(&[4], TYPE_F32, 16);
        bytes.0[4..8].copy_from_slice(&version);
        assert_eq!(refused(bytes), format!("at byte 4: version: wanted {shown}"));
    }
}

// G2: counts and lengths that the file cannot back.

#[test]
fn giant_key_and_string_lengths_are_refused() {
    let giant = (1 << 48) - 1;
    assert_eq!(
        refused(Bytes::header(0, 1).u64(giant).raw(&[0; 8])),
        "at byte 24: metadata key 0 length: needs 281474976710687 bytes, file has 40"
    );
    assert_eq!(
        refused(Bytes::header(0, 1).key("k", STRING).u64(giant)),
        "at byte 37: metadata key `k` length: needs 281474976710700 bytes, file has 45"
    );
    assert_eq!(
        refused(Bytes::header(0, 1).key("k", STRING).u64(u64::MAX)),
        "at byte 37: metadata key `k` length: needs 18446744073709551615 bytes, file has 45"
    );
    assert_eq!(
        refused(Bytes::header(1, 0).u64(giant).raw(&[0; 40])),
        "at byte 24: tensor 0 name length: needs 281474976710687 bytes, file has 72"
    );
}

#[test]
fn giant_array_counts_are_refused() {
    let array = |element: u32, count: u64| {
        refused(Bytes::header(0, 1).key("k", ARRAY).u32(element).u64(count).raw(&[0; 16]))
    };
    let expected = |each: u64, limit: u64, count: u64| {
        format!(
            "at byte 41: metadata key `k` element count: wanted at most {limit} \
             (16 bytes are left, each takes {each} or more), found {count}"
        )
    };
    assert_eq!(array(U8, 1 << 48), expected(1, 16, 1 << 48));
    assert_eq!(array(U32, 5), expected(4, 4, 5));
    // Eight times this count wraps to zero.
    assert_eq!(array(10, 1 << 61), expected(8, 2, 1 << 61));
    assert_eq!(array(BOOL, u64::MAX), expected(1, 16, u64::MAX));
    assert_eq!(array(STRING, 3), expected(8, 2, 3));
    assert_eq!(array(ARRAY, u64::MAX), expected(12, 1, u64::MAX));
}

#[test]
fn a_string_inside_an_array_that_is_too_long_is_named_by_its_index() {
    let bytes = Bytes::header(0, 1).key("k", ARRAY).u32(STRING).u64(2).string(b"ab").u64(9).raw(&[0; 8]);
    assert_eq!(refused(bytes), "at byte 59: metadata key `k`[1] length: needs 76 bytes, file has 75");
}

#[test]
fn giant_tensor_and_key_counts_are_refused() {
    assert_eq!(
        refused(Bytes::header(1 << 63, 0).raw(&[0; 64])),
        "at byte 8: tensor count: wanted at most 3 (72 bytes are left, each takes 24 or more), \
         found 9223372036854775808"
    );
    assert_eq!(
        refused(Bytes::header(0, u64::MAX).raw(&[0; 64])),
        "at byte 16: metadata count: wanted at most 4 (64 bytes are left, each takes 13 or more), \
         found 18446744073709551615"
    );
    assert_eq!(
        refused(Bytes(b"GGUF\x03\0\0\0\x01\0".to_vec())),
        "at byte 8: tensor count: needs 16 bytes, file has 10"
    );
}

#[test]
fn more_entries_than_the_limit_are_refused_however_large_the_file() {
    let bytes = Bytes::header(0, 65537).raw(&vec![0; 13 * 65537]).0;
    assert_eq!(
        parse(&bytes).unwrap_err(),
        "hostile.gguf: at byte 16: metadata count: wanted at most 65536, found 65537"
    );
}

// G4: zero dimensions.

#[test]
fn a_zero_dimension_is_an_empty_tensor_that_can_be_inspected() {
    for (dims, kind) in
        [(&[4u64, 0][..], TYPE_F32), (&[0, 4], TYPE_F32), (&[0], TYPE_Q4_K), (&[256, 0, 3], TYPE_Q4_K)]
    {
        for data in [0, 32] {
            let file = parse(&one_tensor(dims, kind, data).0).unwrap();
            let tensor = &file.tensors()[0];
            assert_eq!(tensor.shape, dims);
            assert_eq!(tensor.elements(), 0);
            assert_eq!(file.tensor_bytes(tensor), b"");
            assert!(render_text(&file, true).contains("0 bytes at"));
            assert_eq!(render_json(&file, true)["tensors"][0]["bytes"], 0);
        }
    }
}

#[test]
fn an_empty_tensor_may_lie_anywhere_but_aligned() {
    let far = Bytes::header(1, 0).tensor("w", &[0], TYPE_F32, 1 << 62);
    assert!(parse(&far.0).unwrap().tensors()[0].range.is_empty());
    let odd = Bytes::header(1, 0).tensor("w", &[0], TYPE_F32, 4);
    assert_eq!(refused(odd), "at byte 49: tensor `w` offset: wanted a multiple of the alignment 32, found 4");
}

#[test]
fn no_dimensions_are_a_scalar() {
    let file = parse(&one_tensor(&[], TYPE_F32, 4).0).unwrap();
    assert_eq!((file.tensors()[0].elements(), file.tensors()[0].range.len()), (1, 4));
    assert_eq!(
        refused(one_tensor(&[], TYPE_Q4_K, 144)),
        "at byte 37: tensor `w` dimensions: wanted rows of a multiple of 256 elements for type Q4_K, found 1"
    );
}

// G5: sizes that overflow.

#[test]
fn dims_whose_product_wraps_are_refused() {
    let expected = |dims: &str| {
        format!(
            "at byte 37: tensor `w` dimensions: element count overflows: \
             wanted at most 2^63 - 1 elements and bytes, found dims {dims}"
        )
    };
    let wrap = [(1 << 42) + 1, 1 << 22];
    assert_eq!(refused(one_tensor(&wrap, TYPE_I8, 64)), expected("[4398046511105, 4194304]"));
    let k_wrap = [((1u64 << 42) + 1) << 8, 1 << 14];
    assert_eq!(refused(one_tensor(&k_wrap, TYPE_Q4_K, 64)), expected("[1125899906842880, 16384]"));
    let double = [(1 << 63) - 1, 2];
    assert_eq!(refused(one_tensor(&double, TYPE_I8, 64)), expected("[9223372036854775807, 2]"));
    assert_eq!(refused(one_tensor(&[1 << 63], TYPE_I8, 64)), expected("[9223372036854775808]"));
    assert_eq!(
        refused(one_tensor(&[1 << 62, 1 << 62, 0], TYPE_I8, 64)),
        expected("[4611686018427387904, 4611686018427387904, 0]")
    );
    // The elements are countable, their bytes are not.
    assert_eq!(refused(one_tensor(&[1 << 62], TYPE_F32, 64)), expected("[4611686018427387904]"));
}

#[test]
fn five_dims_are_refused() {
    let found =
        |count: u32| format!("at byte 33: tensor `w` dimension count: wanted at most 4 dims, found {count}");
    assert_eq!(refused(one_tensor(&[1, 1, 1, 1, 1], TYPE_F32, 4)), found(5));
    assert_eq!(refused(Bytes::header(1, 0).string(b"w").u32(u32::MAX).raw(&[0; 64])), found(u32::MAX));
}

#[test]
fn offsets_near_the_largest_number_do_not_wrap_into_the_file() {
    let bytes = Bytes::header(1, 0).tensor("w", &[8], TYPE_F32, u64::MAX - 31).data(64);
    assert_eq!(refused(bytes), "at byte 49: tensor `w` data: needs 18446744073709551615 bytes, file has 128");
}

// G7: files that end early.

#[test]
fn a_file_cut_short_says_how_much_it_needs() {
    let whole = Bytes::header(1, 1)
        .key("general.name", STRING)
        .string(b"tiny")
        .tensor("w", &[64, 8], TYPE_F32, 0)
        .data(2048);
    assert_eq!(whole.0.len(), 2176);
    assert!(parse(&whole.0).is_ok());
    for keep in [2176 * 6 / 10, 2175] {
        let cut = Bytes(whole.0[..keep].to_vec());
        assert_eq!(refused(cut), format!("at byte 93: tensor `w` data: needs 2176 bytes, file has {keep}"));
    }
    for keep in 0..101 {
        let error = refused(Bytes(whole.0[..keep].to_vec()));
        assert!(error.starts_with("at byte "), "{error}");
    }
}

#[test]
fn a_file_that_was_read_survives_being_cut() {
    let bytes = one_tensor(&[8], TYPE_F32, 32);
    let mut disk = tempfile::NamedTempFile::new().unwrap();
    disk.write_all(&bytes.0).unwrap();
    let file = GgufFile::open(disk.path(), OpenOptions { mmap: false }).unwrap();
    disk.as_file().set_len(0).unwrap();
    assert_eq!(file.bytes(), bytes.0);
}

// G8: arrays of arrays and unknown types.

#[test]
fn arrays_of_arrays_are_parsed_and_what_follows_stays_in_step() {
    let bytes = Bytes::header(0, 2)
        .key("nested", ARRAY)
        .u32(ARRAY)
        .u64(2)
        .u32(U8)
        .u64(3)
        .raw(&[1, 2, 3])
        .u32(STRING)
        .u64(1)
        .string(b"x")
        .key("after", U32)
        .u32(7);
    let file = parse(&bytes.0).unwrap();
    assert_eq!(file.metadata().require::<u32>("after").unwrap(), 7);
    let nested: Vec<phobos_gguf::Array<'_>> = file.metadata().require("nested").unwrap();
    assert_eq!(nested[0].iter().filter_map(|value| value.as_integer()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(nested[1].len(), 1);
}

#[test]
fn arrays_nested_without_end_are_refused() {
    let levels = |count: usize| {
        let start = Bytes::header(0, 1).key("k", ARRAY);
        (1..count).fold(start, |bytes, _| bytes.u32(ARRAY).u64(1)).u32(U8).u64(1).raw(&[9])
    };
    assert!(parse(&levels(4).0).is_ok());
    for count in [5, 300] {
        let error = refused(levels(count));
        assert_eq!(
            error,
            "at byte 85: metadata key `k`[0][0][0][0]: wanted at most 4 levels of arrays, found more"
        );
    }
}

#[test]
fn unknown_value_types_are_refused() {
    assert_eq!(
        refused(Bytes::header(0, 1).key("k", ARRAY).u32(99).u64(1).raw(&[0; 8])),
        "at byte 37: metadata key `k` element type: wanted a value type from 0 to 12, found 99"
    );
    assert_eq!(
        refused(Bytes::header(0, 1).key("k", 13).raw(&[0; 8])),
        "at byte 33: metadata key `k` type: wanted a value type from 0 to 12, found 13"
    );
    assert_eq!(
        refused(Bytes::header(0, 1).key("k", BOOL).raw(&[2])),
        "at byte 37: metadata key `k`: wanted a bool of 0 or 1, found 2"
    );
    assert_eq!(
        refused(Bytes::header(0, 1).key("k", ARRAY).u32(BOOL).u64(3).raw(&[1, 0, 7])),
        "at byte 51: metadata key `k`[2]: wanted a bool of 0 or 1, found 7"
    );
}

#[test]
fn unknown_and_retired_tensor_types_are_refused() {
    for id in [4, 31, 99, u32::MAX] {
        assert_eq!(
            refused(one_tensor(&[32], id, 64)),
            format!("at byte 45: tensor `w` type: wanted a known tensor type, found {id}")
        );
    }
}

// G10: names and places that clash.

#[test]
fn a_repeated_key_is_refused() {
    let bytes = Bytes::header(0, 2).key("k", U32).u32(1).key("k", U32).u32(2);
    assert_eq!(
        refused(bytes),
        "at byte 41: metadata key `k`: wanted each name once, found it also at byte 24"
    );
}

#[test]
fn a_repeated_tensor_name_is_refused() {
    let bytes = Bytes::header(2, 0).tensor("w", &[8], TYPE_F32, 0).tensor("w", &[8], TYPE_F32, 32).data(64);
    assert_eq!(
        refused(bytes),
        "at byte 57: tensor name `w`: wanted each name once, found it also at byte 24"
    );
}

#[test]
fn an_alignment_that_is_no_u32_power_of_two_is_refused() {
    let with = |kind: u32, value: u32| Bytes::header(0, 1).key("general.alignment", kind).u32(value);
    let expected = |found: &str| {
        format!(
            "at byte 53: metadata key `general.alignment`: wanted a u32 that is a power of two, found {found}"
        )
    };
    assert_eq!(refused(with(U32, 13)), expected("u32 13"));
    assert_eq!(refused(with(U32, 0)), expected("u32 0"));
    assert_eq!(refused(with(U32, u32::MAX)), expected("u32 4294967295"));
    assert_eq!(refused(with(I32, 32)), expected("i32 32"));
    for alignment in [1, 32, 1 << 31] {
        assert_eq!(parse(&with(U32, alignment).0).unwrap().alignment(), alignment);
    }
}

#[test]
fn the_alignment_moves_the_data_section() {
    let file = |alignment: u32| {
        Bytes::header(1, 1)
            .key("general.alignment", U32)
            .u32(alignment)
            .tensor("w", &[1], TYPE_I8, 0)
            .raw(&[0; 64])
    };
    assert_eq!(parse(&file(1).0).unwrap().tensors()[0].range, 90..91);
    assert_eq!(parse(&file(64).0).unwrap().tensors()[0].range, 128..129);
    assert_eq!(refused(file(1 << 31)), "at byte 82: tensor `w` data: needs 2147483649 bytes, file has 154");
}

#[test]
fn a_misaligned_tensor_is_refused() {
    let bytes = Bytes::header(1, 0).tensor("w", &[4], TYPE_F32, 16).data(64);
    assert_eq!(
        refused(bytes),
        "at byte 49: tensor `w` offset: wanted a multiple of the alignment 32, found 16"
    );
}

#[test]
fn overlapping_tensors_are_refused_in_any_order() {
    let two = |a: u64, b: u64| {
        Bytes::header(2, 0).tensor("a", &[16], TYPE_F32, a).tensor("b", &[16], TYPE_F32, b).data(128)
    };
    assert!(parse(&two(0, 64).0).is_ok());
    assert!(parse(&two(64, 0).0).is_ok());
    assert_eq!(
        refused(two(0, 32)),
        "at byte 57: tensor `b` data: wanted bytes of its own, found bytes 128..192 overlap those of tensor `a`"
    );
    assert_eq!(
        refused(two(32, 0)),
        "at byte 24: tensor `a` data: wanted bytes of its own, found bytes 128..192 overlap those of tensor `b`"
    );
    assert!(refused(two(32, 32)).contains("overlap"));
}

// What messages show of a file.

#[test]
fn text_from_the_file_is_escaped_and_cut() {
    let name = format!("\n\u{1b}[2J{}", "y".repeat(900));
    let error = refused(Bytes::header(1, 0).tensor(&name, &[4], 99, 0).data(16));
    let shown = format!("\\n\\u{{1b}}[2J{}...", "y".repeat(59));
    assert_eq!(error, format!("at byte 949: tensor `{shown}` type: wanted a known tensor type, found 99"));
    assert_eq!(
        refused(Bytes::header(0, 1).string(b"\xff\n").u32(U8).raw(&[0])),
        "at byte 32: metadata key 0: wanted UTF-8, found \"\\xff\\n\""
    );
}

#[test]
fn what_a_caller_cannot_use_names_file_key_and_offset() {
    let bytes =
        Bytes::header(1, 1).key("a.block_count", STRING).string(b"many\n").tensor("w", &[256], TYPE_Q8_K, 0);
    let file = parse(&bytes.data(292).0).unwrap();
    assert_eq!(
        file.metadata().require::<u32>("a.block_count").unwrap_err().to_string(),
        "hostile.gguf: at byte 49: metadata key `a.block_count`: wanted an integer from 0 to 4294967295, \
         found string \"many\\n\""
    );
    assert_eq!(
        file.metadata().require::<&str>("a.b").unwrap_err().to_string(),
        "hostile.gguf: metadata key `a.b`: wanted a UTF-8 string, found no such key"
    );
    assert_eq!(
        file.require_tensor("v").unwrap_err().to_string(),
        "hostile.gguf: tensor `v`: not found among the 1 of the file"
    );
    let error = file.tensors()[0].element().unwrap_err().to_string();
    assert!(error.starts_with("hostile.gguf: at byte 62: tensor `w`: wanted one of F32, F16, "), "{error}");
    assert!(error.ends_with("found the type Q8_K, which Phobos cannot run"), "{error}");
}
