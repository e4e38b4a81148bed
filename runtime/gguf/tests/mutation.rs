//! Damaged copies of the fixtures: whatever the damage, the result is a file whose
//! every part can be used, or an error of one line.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{fs, path::Path, sync::Arc};

use phobos_gguf::{GgufFile, Value, dequantize, render_json, render_text};

/// SplitMix64: a seeded sequence, the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Numbers that size checks tend to get wrong.
const NUMBERS: [u64; 12] = [
    0,
    1,
    5,
    31,
    1 << 16,
    1 << 31,
    u32::MAX as u64,
    1 << 48,
    1 << 61,
    i64::MAX as u64,
    u64::MAX - 31,
    u64::MAX,
];

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = [4, 8][random.below(2)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
}

/// Uses everything that a parsed file offers.
fn use_all(file: &GgufFile) {
    let text = render_text(file, true);
    assert!(!text.chars().any(|character| character.is_control() && character != '\n'));
    let json = render_json(file, true).to_string();
    assert!(!json.is_empty());
    for (key, value) in file.metadata().iter() {
        assert!(file.metadata().get(key).is_some());
        if let Value::Array(array) = value {
            assert_eq!(array.iter().count(), array.len(), "{key}");
        }
    }
    for tensor in file.tensors() {
        let bytes = file.tensor_bytes(tensor);
        assert_eq!(bytes.len(), tensor.range.len());
        if let Ok(element) = tensor.element() {
            assert_eq!(element.tensor_bytes(&tensor.rows_shape()), Some(bytes.len() as u64));
            let values = dequantize(element, bytes).unwrap();
            assert_eq!(values.len() as u64, tensor.elements());
        }
    }
}

#[test]
fn damaged_files_are_used_or_refused_and_never_panic() {
    let mut random = Random(7);
    let (mut accepted, mut refused) = (0, 0);
    for name in ["one.gguf", "types.gguf", "metadata.gguf"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let whole = fs::read(path).unwrap();
        let directory_end = whole.len().min(2048);
        for round in 0..1500 {
            let mut bytes = whole.clone();
            // Two rounds of three damage the header and the directories only.
            if round % 3 == 0 {
                damage(&mut bytes, &mut random);
            } else {
                let mut head = bytes[..directory_end].to_vec();
                damage(&mut head, &mut random);
                let cut = head.len() < directory_end;
                let tail = bytes.split_off(directory_end);
                bytes = head;
                if !cut {
                    bytes.extend(tail);
                }
            }
            match GgufFile::parse("damaged.gguf", Arc::new(bytes)) {
                Ok(file) => {
                    use_all(&file);
                    accepted += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.starts_with("damaged.gguf: at byte "), "{error}");
                    assert!(!error.contains(char::is_control), "{error:?}");
                    refused += 1;
                }
            }
        }
    }
    // The damage reaches both sides, or this test tests little.
    assert!(accepted > 300 && refused > 1500, "{accepted} accepted, {refused} refused");
}

#[test]
fn every_truncation_of_every_fixture_is_refused() {
    for name in ["one.gguf", "types.gguf", "metadata.gguf"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let whole = fs::read(path).unwrap();
        let file = GgufFile::parse(name, Arc::new(whole.clone())).unwrap();
        // The writer pads the last tensor; those bytes may be missing.
        let end = file.tensors().iter().map(|tensor| tensor.range.end).max().unwrap();
        for keep in 0..end {
            assert!(GgufFile::parse(name, Arc::new(whole[..keep].to_vec())).is_err(), "{name}: {keep}");
        }
        assert!(GgufFile::parse(name, Arc::new(whole[..end].to_vec())).is_ok());
    }
}
