//! `phobos-cache list`

use std::{collections::BTreeSet, io::Write, path::Path, sync::Arc};

use phobos_artifact::{Chip, HostLevel};
use phobos_kernel_cache::{CacheOptions, Store, fs::RealFileSystem};
use serde_json::json;

use crate::{
    ToolError,
    args::{List, every_chip},
    output::{Known, kernels, size},
    writable,
};

pub(crate) fn run(arguments: List, out: &mut dyn Write) -> Result<(), ToolError> {
    let mut stores = Vec::new();
    if arguments.dir.is_none()
        && let Some(shipped) = CacheOptions::from_environment().0.shipped
    {
        stores.push(Store::new(Arc::new(RealFileSystem), shipped));
    }
    stores.insert(0, writable(arguments.dir.clone())?);

    let chips = arguments.selection.chips(every_chip);
    let mut places = Vec::new();
    for store in &stores {
        let mut known: Vec<Known> =
            store.list()?.into_iter().map(|listed| Known::new(store, listed)).collect();
        known.sort_by(|a, b| (a.listed.chip, a.label()).cmp(&(b.listed.chip, b.label())));
        places.push((store.root(), known));
    }
    mark_stand_ins(&mut places, HostLevel::detect().map(Chip::Host));
    for (_, known) in &mut places {
        known.retain(|entry| {
            chips.contains(&entry.listed.chip) && arguments.selection.has_kernel(entry.kernel())
        });
    }
    if arguments.json { as_json(&places, out) } else { as_text(&places, out) }
}

/// Marks the entries that a run on this CPU uses, since the one for `own`, its level, is absent.
/// Which GPUs there are is not known here.
fn mark_stand_ins(places: &mut [(&Path, Vec<Known>)], own: Option<Chip>) {
    let Some(own) = own else { return };
    let current = places.iter().flat_map(|(_, known)| known).filter(|entry| entry.remark().is_none());
    let present: BTreeSet<(Chip, String)> = current
        .filter_map(|entry| Some((entry.listed.chip, entry.header.as_ref().ok()?.request.clone())))
        .collect();
    for entry in places.iter_mut().flat_map(|(_, known)| known) {
        let Ok(header) = &entry.header else { continue };
        let has = |chip: &Chip| present.contains(&(*chip, header.request.clone()));
        let used = own.runnable().into_iter().find(has);
        let is_used = entry.remark().is_none() && used == Some(entry.listed.chip);
        entry.stands_in_for = Some(own).filter(|own| is_used && *own != entry.listed.chip);
    }
}

fn as_text(places: &[(&Path, Vec<Known>)], out: &mut dyn Write) -> Result<(), ToolError> {
    for (root, known) in places {
        for entry in known {
            writeln!(out, "{}", entry.line())?;
        }
        let (count, bytes) = total(known);
        writeln!(out, "{}: {}, {}", root.display(), kernels(count), size(bytes))?;
    }
    Ok(())
}

fn as_json(places: &[(&Path, Vec<Known>)], out: &mut dyn Write) -> Result<(), ToolError> {
    let places: Vec<serde_json::Value> = places
        .iter()
        .map(|(root, known)| {
            let (count, bytes) = total(known);
            let kernels: Vec<serde_json::Value> = known.iter().map(entry_as_json).collect();
            json!({ "directory": root.to_string_lossy(), "count": count, "bytes": bytes, "kernels": kernels })
        })
        .collect();
    let text = serde_json::to_string_pretty(&places).map_err(|error| ToolError::Failed(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}

fn entry_as_json(entry: &Known) -> serde_json::Value {
    let (fingerprint, damage) = match &entry.header {
        Ok(header) => (Some(&header.fingerprint), None),
        Err(damage) => (None, Some(damage)),
    };
    json!({
        "chip": entry.listed.chip.to_string(),
        "kernel": entry.kernel(),
        "label": entry.label(),
        "bytes": entry.listed.bytes,
        "key": entry.listed.key.to_string(),
        "fingerprint": fingerprint,
        "stands_in_for": entry.stands_in_for.map(|chip| chip.to_string()),
        "current": entry.remark().is_none(),
        "damage": damage,
    })
}

fn total(known: &[Known]) -> (u64, u64) {
    let bytes = known.iter().fold(0u64, |total, entry| total.saturating_add(entry.listed.bytes));
    (known.len() as u64, bytes)
}
