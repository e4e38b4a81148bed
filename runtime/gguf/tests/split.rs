//! Files in parts.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use phobos_gguf::{GgufFile, OpenOptions};

const U32: u32 = 4;
const TYPE_I8: u32 = 24;

/// A part with one tensor of 32 bytes, all of them `fill`.
fn part(number: u32, count: u32, tensor: &str, fill: u8) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    let string = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(3u64.to_le_bytes());
    for (key, value) in [("split.no", number), ("split.count", count), ("split.tensors.count", 3)] {
        string(&mut bytes, key);
        bytes.extend(U32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    string(&mut bytes, tensor);
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(32u64.to_le_bytes());
    bytes.extend(TYPE_I8.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend([fill; 32]);
    bytes
}

fn name(number: u32) -> String {
    format!("m-0000{number}-of-00003.gguf")
}

fn write(folder: &Path) {
    for (number, tensor) in (1..=3).zip(["a", "b", "c"]) {
        fs::write(folder.join(name(number)), part(number - 1, 3, tensor, number as u8)).unwrap();
    }
}

fn refused(folder: &Path, number: u32) -> String {
    let path = folder.join(name(number));
    let error = GgufFile::open(&path, OpenOptions::default()).unwrap_err().to_string();
    error.replace(&format!("{}/", folder.display()), "")
}

#[test]
fn the_parts_beside_the_first_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for mmap in [true, false] {
        let file = GgufFile::open(&folder.path().join(name(1)), OpenOptions { mmap }).unwrap();
        let found: Vec<(&str, usize, &[u8])> = file
            .tensors()
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor.part, file.tensor_bytes(tensor)))
            .collect();
        assert_eq!(found, [("a", 0, &[1; 32][..]), ("b", 1, &[2; 32]), ("c", 2, &[3; 32])]);
        let last = file.require_tensor("c").unwrap();
        assert_eq!((*file.shared_bytes(2)).as_ref()[last.range.clone()], [3; 32]);
        file.release(2, last.range.clone());
        assert_eq!(file.tensor_bytes(last), [3; 32]);
    }
    // A part by itself can be looked at.
    let alone = GgufFile::open_part(&folder.path().join(name(2)), OpenOptions::default()).unwrap();
    assert_eq!(alone.tensors().len(), 1);
}

#[test]
fn a_part_that_is_not_the_first_names_the_first() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let expected =
        "m-00002-of-00003.gguf: part 2 of 3 of a split file: give the first, m-00001-of-00003.gguf";
    assert_eq!(refused(folder.path(), 2), expected);
}

#[test]
fn parts_that_are_missing_or_others_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let first = "m-00001-of-00003.gguf: the first of the 3 parts of a split file";
    let third = folder.path().join(name(3));
    fs::remove_file(&third).unwrap();
    let error = refused(folder.path(), 1);
    assert!(error.starts_with(&format!("{first}: part 3: m-00003-of-00003.gguf: No such file")), "{error}");

    fs::write(&third, part(1, 3, "c", 0)).unwrap();
    assert_eq!(refused(folder.path(), 1), format!("{first}: m-00003-of-00003.gguf: is not part 3 of 3"));

    fs::write(&third, part(2, 3, "a", 0)).unwrap();
    let expected = format!("{first}: m-00003-of-00003.gguf: tensor `a` is in a part before too");
    assert_eq!(refused(folder.path(), 1), expected);

    fs::rename(folder.path().join(name(1)), folder.path().join("m.gguf")).unwrap();
    let error =
        GgufFile::open(&folder.path().join("m.gguf"), OpenOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with("its name does not end in -00001-of-00003.gguf, which names the others"),
        "{error}"
    );
}
