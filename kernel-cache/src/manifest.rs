//! The requests that a run asked for, without the chip, one file each: with them a
//! cache can be warmed for any chip on any machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, PoisonError},
};

use phobos_artifact::{Chip, CompileOptions, CompileRequest, DimRange, Element, RequestKey};
use serde::{Deserialize, Serialize};

use crate::{
    fs::FileSystem,
    store::{StoreError, TEMPORARY, file_name_part},
};

/// The largest file that is taken for a recipe, in bytes.
const MAX_RECIPE_BYTES: u64 = 16 << 20;

/// The version of the recipe's format.
const RECIPE_VERSION: u32 = 1;

/// A request without its chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    version: u32,
    /// See [`CompileRequest::kernel`].
    pub kernel: String,
    /// See [`CompileRequest::elements`].
    pub elements: BTreeMap<String, Element>,
    /// See [`CompileRequest::dims`].
    pub dims: BTreeMap<String, u64>,
    /// See [`CompileRequest::ranges`].
    #[serde(default)]
    pub ranges: BTreeMap<String, DimRange>,
    /// See [`CompileRequest::params`].
    pub params: BTreeMap<String, u64>,
    /// See [`CompileRequest::options`].
    pub options: CompileOptions,
    /// See [`CompileRequest::source`].
    pub source: String,
}

impl Recipe {
    /// `request` without its chip.
    pub fn new(request: &CompileRequest) -> Recipe {
        let CompileRequest { source, kernel, elements, dims, ranges, params, options, chip: _ } =
            request.clone();
        Recipe { version: RECIPE_VERSION, kernel, elements, dims, ranges, params, options, source }
    }

    /// The request for `chip`.
    pub fn request(&self, chip: Chip) -> CompileRequest {
        let Recipe { version: _, kernel, elements, dims, ranges, params, options, source } = self.clone();
        CompileRequest { source, kernel, elements, dims, ranges, params, options, chip }
    }
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file is no recipe of this version.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
}

/// A directory of recipes.
#[derive(Debug)]
pub struct Manifest {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
    /// What this process has recorded.
    recorded: Mutex<BTreeSet<RequestKey>>,
}

impl Manifest {
    /// The manifest in the directory `root`, which need not exist yet.
    pub fn new(fs: Arc<dyn FileSystem>, root: impl Into<PathBuf>) -> Manifest {
        Manifest { fs, root: root.into(), recorded: Mutex::default() }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes the recipe of `request`, unless this process has done so.
    pub fn record(&self, request: &CompileRequest) -> Result<(), StoreError> {
        let key = request.manifest_key();
        let fresh = |set: &mut BTreeSet<RequestKey>| set.insert(key);
        if !fresh(&mut self.recorded.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let io = |action, path: &Path, error| StoreError::io(action, path, error);
        self.fs.create_dir_all(&self.root).map_err(|error| io("create", &self.root, error))?;
        let path = self.root.join(format!("{}-{key}.json", file_name_part(&request.kernel)));
        let mut bytes = serde_json::to_vec_pretty(&Recipe::new(request))
            .map_err(|error| io("write", &path, io::Error::other(error)))?;
        bytes.push(b'\n');
        let random = RandomState::new().hash_one(process::id());
        let temporary = self.root.join(format!("{TEMPORARY}{}-{random:016x}", process::id()));
        let written = (|| {
            let mut file = self.fs.create_new(&temporary)?;
            file.write_all(&bytes)?;
            drop(file);
            self.fs.rename(&temporary, &path)
        })();
        if written.is_err() {
            let _ = self.fs.remove_file(&temporary);
        }
        written.map_err(|error| io("write", &path, error))
    }

    /// Every recipe, by file name. A file that cannot be read is an error in its place
    /// in the list; a directory that cannot be read is one of the whole.
    pub fn read(&self) -> Result<Vec<Result<Recipe, ManifestError>>, StoreError> {
        let mut items =
            self.fs.read_dir(&self.root).map_err(|error| StoreError::io("list", &self.root, error))?;
        items.sort_by(|a, b| a.name.cmp(&b.name));
        let recipes = items
            .iter()
            .map(|item| self.root.join(&item.name))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        Ok(recipes.map(|path| self.read_recipe(path)).collect())
    }

    fn read_recipe(&self, path: PathBuf) -> Result<Recipe, ManifestError> {
        let contents =
            self.fs.read(&path, MAX_RECIPE_BYTES).map_err(|error| StoreError::io("read", &path, error))?;
        match serde_json::from_slice::<Recipe>(&contents.bytes) {
            Ok(recipe) if recipe.version == RECIPE_VERSION => Ok(recipe),
            Ok(recipe) => {
                let message =
                    format!("recipe version {}; this build reads version {RECIPE_VERSION}", recipe.version);
                Err(ManifestError::Malformed { path, message })
            }
            Err(error) => Err(ManifestError::Malformed { path, message: format!("not a recipe: {error}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{entry::tests::request, fs::RealFileSystem};

    #[test]
    fn requests_come_back_for_any_chip() {
        let root = tempfile::tempdir().unwrap();
        let manifest = Manifest::new(Arc::new(RealFileSystem), root.path().join("new"));
        let mut full = request("linear");
        full.elements.insert("F".into(), "q4_1".parse().unwrap());
        full.dims.insert("D".into(), 64);
        full.params.insert("TILE".into(), 32);
        full.ranges.insert("M".into(), "2..31".parse().unwrap());
        full.options.no_tune = true;
        let other_chip = CompileRequest { chip: Chip::Sm(120), ..full.clone() };
        for request in [&full, &other_chip, &request("a"), &full] {
            manifest.record(request).unwrap();
        }
        // Another process records the same again.
        Manifest::new(Arc::new(RealFileSystem), manifest.root()).record(&full).unwrap();
        let recipes: Vec<Recipe> = manifest.read().unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(recipes.len(), 2);
        assert_eq!(recipes[1].request(Chip::Sm(86)), full);
        assert_eq!(recipes[1].request(Chip::Sm(120)), other_chip);
        assert_eq!(fs::read_dir(manifest.root()).unwrap().count(), 2, "no temporary files stay");
    }

    #[test]
    fn a_bad_file_is_named_and_the_rest_is_read() {
        let root = tempfile::tempdir().unwrap();
        let manifest = Manifest::new(Arc::new(RealFileSystem), root.path());
        manifest.record(&request("k")).unwrap();
        fs::write(root.path().join("bad.json"), "{").unwrap();
        fs::write(root.path().join("readme.txt"), "not looked at").unwrap();
        let recipe = serde_json::to_string(&Recipe::new(&request("k"))).unwrap();
        fs::write(root.path().join("new.json"), recipe.replace("\"version\":1", "\"version\":2")).unwrap();
        let read = manifest.read().unwrap();
        let errors: Vec<String> =
            read.iter().filter_map(|result| result.as_ref().err()).map(ToString::to_string).collect();
        assert_eq!((read.len(), errors.len()), (3, 2));
        assert!(errors[0].contains("bad.json: not a recipe"), "{errors:?}");
        assert!(errors[1].contains("new.json: recipe version 2"), "{errors:?}");
        let gone = Manifest::new(Arc::new(RealFileSystem), root.path().join("gone"));
        assert!(gone.read().is_err());
    }
}
