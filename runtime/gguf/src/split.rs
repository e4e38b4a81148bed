//! Files in several parts: the first has the metadata, each has tensors of its own.

use std::path::{Path, PathBuf};

use crate::{
    error::GgufError,
    escape::{MESSAGE_LIMIT, escaped},
    file::GgufFile,
    source::OpenOptions,
};

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// The most parts of a file: what the five digits of a name can count.
const MAX_PARTS: u64 = 99_999;

/// Joins the other parts to `file`, which is at `path`; does nothing to a file that is whole.
pub(crate) fn join(file: &mut GgufFile, path: &Path, options: OpenOptions) -> Result<(), GgufError> {
    let Some(count) = file.metadata().optional::<u64>(COUNT)?.filter(|count| *count > 1) else {
        return Ok(());
    };
    let number = file.metadata().require::<u64>(NUMBER)?;
    let name = file.name().to_owned();
    if number > 0 {
        let part = number.saturating_add(1);
        let first = match sibling(path, part, count, 1) {
            Some(first) => escaped(first.as_os_str().as_encoded_bytes(), usize::MAX).to_string(),
            None => "which its name does not tell".to_owned(),
        };
        return Err(GgufError::NotFirstPart { file: name, part, count, first });
    }
    let refuse = |problem: String| Err(GgufError::Split { file: name.clone(), count, problem });
    if count > MAX_PARTS {
        return refuse(format!("wanted at most {MAX_PARTS}"));
    }
    for part in 2..=count {
        let Some(path) = sibling(path, 1, count, part) else {
            return refuse(format!(
                "its name does not end in -00001-of-{count:05}.gguf, which names the others"
            ));
        };
        let other = match GgufFile::open_part(&path, options) {
            Ok(other) => other,
            Err(error) => return refuse(format!("part {part}: {error}")),
        };
        let found = (other.metadata().optional::<u64>(NUMBER)?, other.metadata().optional::<u64>(COUNT)?);
        if found != (Some(part - 1), Some(count)) {
            return refuse(format!("{}: is not part {part} of {count}", other.name()));
        }
        let shown = other.name().to_owned();
        if let Err(tensor) = file.append(other) {
            let tensor = escaped(tensor.as_bytes(), MESSAGE_LIMIT);
            return refuse(format!("{shown}: tensor `{tensor}` is in a part before too"));
        }
    }
    let wanted = file.metadata().optional::<u64>(TENSORS)?;
    let found = file.tensors().len() as u64;
    match wanted.filter(|wanted| *wanted != found) {
        Some(wanted) => refuse(format!("wanted {wanted} tensors in all parts, found {found}")),
        None => Ok(()),
    }
}

/// The path of part `other`, from that of part `part`.
fn sibling(path: &Path, part: u64, count: u64, other: u64) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(&format!("-{part:05}-of-{count:05}.gguf"))?;
    Some(path.with_file_name(format!("{stem}-{other:05}-of-{count:05}.gguf")))
}
