//! Finds the `phobos-compile` program.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::CompileError;

const PROGRAM: &str = "phobos-compile";
const VARIABLE: &str = "PHOBOS_COMPILE";

/// What the search reads from the process, so that it can be tested without one.
struct Surroundings {
    variable: Option<PathBuf>,
    executable: Option<PathBuf>,
    path: Vec<PathBuf>,
}

/// The worker program: `PHOBOS_COMPILE`, else beside this executable or one folder up
/// (where cargo's test executables find it), else on `PATH`.
pub(crate) fn locate() -> Result<PathBuf, CompileError> {
    let path = env::var_os("PATH").unwrap_or_default();
    search(&Surroundings {
        variable: env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from),
        executable: env::current_exe().ok(),
        path: env::split_paths(&path).filter(|folder| folder.is_absolute()).collect(),
    })
}

fn search(surroundings: &Surroundings) -> Result<PathBuf, CompileError> {
    // A variable that points nowhere is a mistake to report, not to work around.
    let candidates: Vec<PathBuf> = match &surroundings.variable {
        Some(program) => vec![program.clone()],
        None => {
            let executable = surroundings.executable.as_deref();
            let beside = executable.and_then(Path::parent);
            let above = beside.and_then(Path::parent);
            let near = beside.into_iter().chain(above).map(Path::to_path_buf);
            near.chain(surroundings.path.iter().cloned()).map(|folder| folder.join(PROGRAM)).collect()
        }
    };
    match candidates.iter().find(|program| is_program(program)) {
        Some(program) => Ok(program.clone()),
        None => Err(CompileError::NotFound { tried: candidates }),
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn program(folder: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(PROGRAM);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_order_of_places() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        let mut surroundings = Surroundings {
            variable: None,
            executable: Some(folder("release/deps/test")),
            path: vec![folder("empty"), folder("bin")],
        };
        match search(&surroundings) {
            Err(CompileError::NotFound { tried }) => assert_eq!(tried.len(), 4),
            other => panic!("{other:?}"),
        }
        let on_path = program(&folder("bin"), 0o755);
        assert_eq!(search(&surroundings).unwrap(), on_path);
        let above = program(&folder("release"), 0o755);
        assert_eq!(search(&surroundings).unwrap(), above);
        program(&folder("release/deps"), 0o644);
        assert_eq!(search(&surroundings).unwrap(), above, "a file that is no program does not count");
        let beside = program(&folder("release/deps"), 0o755);
        assert_eq!(search(&surroundings).unwrap(), beside);
        surroundings.variable = Some(on_path.clone());
        assert_eq!(search(&surroundings).unwrap(), on_path);
        surroundings.variable = Some(folder("gone"));
        let error = search(&surroundings).unwrap_err();
        assert!(matches!(&error, CompileError::NotFound { tried } if *tried == [folder("gone")]));
        assert!(error.to_string().contains("cargo build --release -p phobos-driver"), "{error}");
    }
}
