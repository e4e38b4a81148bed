//! `phobos-cache clear` and `phobos-cache prune`

use std::{collections::BTreeSet, io::Write, path::PathBuf, time::Duration};

use phobos_artifact::RequestKey;
use phobos_kernel_cache::{
    Store,
    evict::{self, Removed, STALE_AFTER},
};

use crate::{
    ToolError,
    args::{Clear, Prune, Selection, every_chip},
    output::{Known, kernels, size},
    warm::recipes,
    writable,
};

/// Removes what is selected. Without a name, also the strays of any age.
pub(crate) fn clear(arguments: Clear, out: &mut dyn Write) -> Result<(), ToolError> {
    let store = writable(arguments.dir)?;
    let mut remover = Remover::new(&store, arguments.dry_run, out);
    remover.entries(&arguments.selection, |_| true)?;
    remover.strays(&arguments.selection, Duration::ZERO)?;
    remover.finish()
}

/// Removes what no manifest asks this build for.
pub(crate) fn prune(arguments: Prune, out: &mut dyn Write) -> Result<(), ToolError> {
    let store = writable(arguments.dir)?;
    // A manifest that is misspelt or half readable must not empty the cache.
    let (recipes, bad) = recipes(&arguments.manifests)?;
    if bad > 0 {
        return Err(ToolError::Failed(format!(
            "{bad} files of the manifests cannot be read; nothing was removed"
        )));
    }
    if recipes.is_empty() {
        return Err(ToolError::Failed("the manifests are empty; nothing was removed".into()));
    }
    let fingerprint = phobos_worker::fingerprint::current();
    let wanted: BTreeSet<RequestKey> = recipes
        .iter()
        .flat_map(|recipe| every_chip().into_iter().map(|chip| recipe.request(chip).key(&fingerprint)))
        .collect();
    let mut remover = Remover::new(&store, arguments.dry_run, out);
    remover.entries(&arguments.selection, |key| !wanted.contains(key))?;
    remover.strays(&arguments.selection, STALE_AFTER)?;
    remover.finish()
}

struct Remover<'a> {
    store: &'a Store,
    dry_run: bool,
    out: &'a mut dyn Write,
    entries: Removed,
    strays: Removed,
    failed: bool,
}

impl<'a> Remover<'a> {
    fn new(store: &'a Store, dry_run: bool, out: &'a mut dyn Write) -> Remover<'a> {
        Remover {
            store,
            dry_run,
            out,
            entries: Removed::default(),
            strays: Removed::default(),
            failed: false,
        }
    }

    /// Removes the selected entries whose key `is_surplus`.
    fn entries(
        &mut self,
        selection: &Selection,
        is_surplus: impl Fn(&RequestKey) -> bool,
    ) -> Result<(), ToolError> {
        let chips = selection.chips(every_chip);
        for listed in self.store.list()? {
            if !chips.contains(&listed.chip) || !is_surplus(&listed.key) {
                continue;
            }
            let known = Known::new(self.store, listed);
            if selection.has_kernel(known.kernel())
                && self.remove(known.listed.path.clone(), &known.line())?
            {
                self.entries.add(known.listed.bytes);
            }
        }
        Ok(())
    }

    /// Removes the strays at least `age` old, unless the selection is by name.
    fn strays(&mut self, selection: &Selection, age: Duration) -> Result<(), ToolError> {
        if !selection.kernels.is_empty() {
            return Ok(());
        }
        let chips = selection.chips(Vec::new);
        for stray in evict::strays(self.store, age)? {
            let meant = chips.is_empty()
                || chips.iter().any(|chip| stray.path.starts_with(self.store.root().join(chip.to_string())));
            if meant {
                let line = stray.path.display().to_string();
                if self.remove(stray.path, &line)? {
                    self.strays.add(stray.bytes);
                }
            }
        }
        if !self.dry_run {
            evict::sweep_locks(self.store)?;
        }
        Ok(())
    }

    /// Removes a file and says so; `false` when that failed, which is said too.
    fn remove(&mut self, path: PathBuf, what: &str) -> Result<bool, ToolError> {
        if self.dry_run {
            writeln!(self.out, "would remove {what}")?;
            return Ok(true);
        }
        match self.store.remove_file(&path) {
            Ok(()) => {
                writeln!(self.out, "removed {what}")?;
                Ok(true)
            }
            Err(error) => {
                eprintln!("error: {error}");
                self.failed = true;
                Ok(false)
            }
        }
    }

    fn finish(self) -> Result<(), ToolError> {
        let Remover { store, dry_run, out, entries, strays, failed } = self;
        let verb = if dry_run { "would remove" } else { "removed" };
        let bytes = entries.bytes.saturating_add(strays.bytes);
        let strays = match strays.files {
            0 => String::new(),
            count => format!(" and {count} stray files"),
        };
        let root = store.root().display();
        writeln!(out, "{root}: {verb} {}{strays}, {}", kernels(entries.files), size(bytes))?;
        if failed { Err(ToolError::Reported) } else { Ok(()) }
    }
}
