//! A look at a shared object before the loader maps it: the loader trusts the program
//! headers, and one that points past the end of the file is a SIGBUS.
//! Source: System V ABI, chapters 4 and 5.

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;

/// Checks that `image` is an x86-64 shared object whose segments lie inside it.
pub(super) fn check(image: &[u8]) -> Result<(), String> {
    let refuse = |what: &str| Err(format!("the shared object {what}"));
    if image.len() < HEADER || !image.starts_with(b"\x7fELF") {
        return refuse("is not an ELF file");
    }
    // EI_CLASS 64 bits, EI_DATA little endian.
    if image.get(4..6) != Some(&[2, 1][..]) {
        return refuse("is not a 64-bit little-endian ELF file");
    }
    if u16_at(image, 16) != Some(ET_DYN) || u16_at(image, 18) != Some(EM_X86_64) {
        return refuse("is not a shared object for x86-64");
    }
    let (Some(start), Some(size), Some(count)) = (u64_at(image, 32), u16_at(image, 54), u16_at(image, 56))
    else {
        return refuse("has no header");
    };
    if usize::from(size) != PROGRAM_HEADER {
        return refuse("has program headers of an unknown size");
    }
    let mut loads = 0;
    for index in 0..u64::from(count) {
        let segment = usize::try_from(start).ok().and_then(|start| {
            let at = start.checked_add(index as usize * PROGRAM_HEADER)?;
            Some((
                u32_at(image, at)?,
                u64_at(image, at.checked_add(8)?)?,
                u64_at(image, at.checked_add(32)?)?,
            ))
        });
        let Some((kind, offset, bytes)) = segment else {
            return refuse("is cut off in its program headers");
        };
        if kind == PT_LOAD {
            loads += 1;
            if offset.checked_add(bytes).is_none_or(|end| end > image.len() as u64) {
                return Err(format!(
                    "the shared object is cut off: segment {index} needs {bytes} bytes at {offset}, \
                     the file has {}",
                    image.len()
                ));
            }
        }
    }
    if loads == 0 {
        return refuse("has nothing to load");
    }
    Ok(())
}

fn bytes_at<const N: usize>(image: &[u8], at: usize) -> Option<[u8; N]> {
    image.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(image: &[u8], at: usize) -> Option<u16> {
    bytes_at(image, at).map(u16::from_le_bytes)
}

fn u32_at(image: &[u8], at: usize) -> Option<u32> {
    bytes_at(image, at).map(u32::from_le_bytes)
}

fn u64_at(image: &[u8], at: usize) -> Option<u64> {
    bytes_at(image, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one segment of `bytes` bytes at `offset`.
    fn object(offset: u64, bytes: u64) -> Vec<u8> {
        let mut image = vec![0u8; HEADER + PROGRAM_HEADER];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        image[16] = 3;
        image[18] = 62;
        image[32] = HEADER as u8;
        image[54] = PROGRAM_HEADER as u8;
        image[56] = 1;
        image[HEADER] = 1;
        image[HEADER + 8..HEADER + 16].copy_from_slice(&offset.to_le_bytes());
        image[HEADER + 32..HEADER + 40].copy_from_slice(&bytes.to_le_bytes());
        image
    }

    #[test]
    fn segments_must_lie_inside() {
        assert_eq!(check(&object(0, 120)), Ok(()));
        assert!(check(&object(0, 121)).unwrap_err().contains("needs 121 bytes at 0"));
        assert!(check(&object(u64::MAX, 2)).unwrap_err().contains("cut off"));
    }

    #[test]
    fn every_cut_and_other_machines_are_refused() {
        let image = object(0, 120);
        for len in 0..image.len() {
            assert!(check(&image[..len]).is_err(), "{len}");
        }
        for (at, value) in [(0, b'X'), (4, 1), (5, 2), (16, 2), (18, 3), (54, 0), (56, 0), (39, 255)] {
            let mut image = image.clone();
            image[at] = value;
            assert!(check(&image).is_err(), "{at}");
        }
    }
}
