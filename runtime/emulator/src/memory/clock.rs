//! What a thread knows of the others: vector clocks that are short because a
//! whole-CTA barrier makes every thread know everything before it.

use std::{collections::BTreeMap, sync::Arc};

use super::race::Record;

/// What is known of another CTA: everything before an epoch, and in that epoch
/// the clocks of single threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Accesses of earlier epochs are known.
    pub epoch: u32,
    /// Known clocks of threads in that epoch, by thread of the CTA.
    pub clocks: BTreeMap<u32, u32>,
}

type Others = BTreeMap<u32, Foreign>;

/// What a release makes visible.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    cta: u32,
    own: Foreign,
    others: Option<Arc<Others>>,
}

/// The clocks of one thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadClock {
    /// Whole-CTA barriers passed.
    pub epoch: u32,
    /// Counts this thread's releases.
    pub clock: u32,
    /// Known clocks of the CTA's threads in this epoch.
    known: Option<Arc<[u32]>>,
    /// What is known of other CTAs.
    others: Option<Arc<Others>>,
    /// What the last fence made ready to be released.
    fence: Option<Arc<Snapshot>>,
    /// What strong reads saw, to be known after the next fence.
    pending: Option<Arc<Snapshot>>,
}

fn merge_foreign(into: &mut Foreign, from: &Foreign) {
    if from.epoch > into.epoch {
        *into = from.clone();
    } else if from.epoch == into.epoch {
        for (thread, clock) in &from.clocks {
            let slot = into.clocks.entry(*thread).or_insert(*clock);
            *slot = (*slot).max(*clock);
        }
    }
}

fn merge_others(into: &mut Option<Arc<Others>>, from: &Option<Arc<Others>>) {
    match (into.as_mut(), from) {
        (_, None) => {}
        (None, Some(from)) => *into = Some(from.clone()),
        (Some(mine), Some(from)) if Arc::ptr_eq(mine, from) => {}
        (Some(mine), Some(from)) => {
            let mine = Arc::make_mut(mine);
            for (cta, foreign) in from.iter() {
                merge_foreign(mine.entry(*cta).or_default(), foreign);
            }
        }
    }
}

/// Joins two snapshots.
pub fn merge_snapshots(a: Option<Arc<Snapshot>>, b: &Arc<Snapshot>) -> Arc<Snapshot> {
    let Some(a) = a else { return b.clone() };
    if Arc::ptr_eq(&a, b) {
        return a;
    }
    let mut joined = (*a).clone();
    if joined.cta == b.cta {
        merge_foreign(&mut joined.own, &b.own);
        merge_others(&mut joined.others, &b.others);
    } else {
        let mut others = joined.others.take().map(|others| (*others).clone()).unwrap_or_default();
        merge_foreign(others.entry(b.cta).or_default(), &b.own);
        joined.others = Some(Arc::new(others));
        merge_others(&mut joined.others, &b.others);
    }
    Arc::new(joined)
}

impl ThreadClock {
    /// Whether the access happened before everything this thread does now.
    /// `cta` and `thread` are this thread's; a CTA has `size` threads.
    #[inline]
    pub fn knows(&self, record: &Record, me: u32, cta: u32, size: u32) -> bool {
        let within = record.thread.wrapping_sub(cta.wrapping_mul(size));
        if within < size {
            return self.knows_local(record, record.thread == me, within);
        }
        let (other_cta, other) = (record.thread / size, record.thread % size);
        let Some(foreign) = self.others.as_ref().and_then(|others| others.get(&other_cta)) else {
            return false;
        };
        record.epoch < foreign.epoch || foreign.clocks.get(&other).is_some_and(|clock| *clock > record.clock)
    }

    /// The same for a thread of this CTA, `other` of it.
    #[inline]
    pub fn knows_local(&self, record: &Record, own: bool, other: u32) -> bool {
        own || record.epoch < self.epoch
            || self
                .known
                .as_ref()
                .is_some_and(|known| known.get(other as usize).is_some_and(|clock| *clock > record.clock))
    }

    fn snapshot(&mut self, cta: u32, thread: u32) -> Arc<Snapshot> {
        self.clock += 1;
        let mut clocks = BTreeMap::new();
        if let Some(known) = &self.known {
            for (other, clock) in known.iter().enumerate().filter(|(_, clock)| **clock > 0) {
                clocks.insert(other as u32, *clock);
            }
        }
        clocks.insert(thread, self.clock);
        Arc::new(Snapshot { cta, own: Foreign { epoch: self.epoch, clocks }, others: self.others.clone() })
    }

    fn learn(&mut self, snapshot: &Snapshot, cta: u32, size: u32) {
        merge_others(&mut self.others, &snapshot.others);
        if snapshot.cta != cta {
            let mut others = self.others.take().map(|others| (*others).clone()).unwrap_or_default();
            merge_foreign(others.entry(snapshot.cta).or_default(), &snapshot.own);
            self.others = Some(Arc::new(others));
        } else if snapshot.own.epoch == self.epoch {
            let mut known: Vec<u32> = match &self.known {
                Some(known) => known.to_vec(),
                None => vec![0; size as usize],
            };
            for (thread, clock) in &snapshot.own.clocks {
                if let Some(slot) = known.get_mut(*thread as usize) {
                    *slot = (*slot).max(*clock);
                }
            }
            self.known = Some(known.into());
        }
        // Knowledge of this very CTA that came back through another one.
        let returned = snapshot.others.as_ref().and_then(|others| others.get(&cta)).cloned();
        if let Some(own) = returned
            && own.epoch == self.epoch
        {
            self.learn(&Snapshot { cta, own, others: None }, cta, size);
        }
    }

    /// A fence: what was done is ready to be released, what was read is known.
    pub fn fence(&mut self, cta: u32, thread: u32, size: u32) {
        if let Some(pending) = self.pending.take() {
            self.learn(&pending, cta, size);
        }
        self.fence = Some(self.snapshot(cta, thread));
    }

    /// What a strong write makes visible: after a fence, or when it releases.
    pub fn release(&mut self, releases: bool, cta: u32, thread: u32) -> Option<Arc<Snapshot>> {
        if releases { Some(self.snapshot(cta, thread)) } else { self.fence.clone() }
    }

    /// A strong read of a location with a released snapshot.
    pub fn acquire(&mut self, snapshot: &Arc<Snapshot>, acquires: bool, cta: u32, size: u32) {
        if acquires {
            self.learn(snapshot, cta, size);
        } else {
            self.pending = Some(merge_snapshots(self.pending.take(), snapshot));
        }
    }
}

/// Joins the clocks of `members`: each then knows what any of them did.
pub fn join(clocks: &mut [ThreadClock], members: &[u32]) {
    let size = clocks.len();
    let mut known = vec![0u32; size];
    let mut merged: Option<Arc<[u32]>> = None;
    let mut others = None;
    for member in members {
        let Some(clock) = clocks.get_mut(*member as usize) else { continue };
        clock.clock += 1;
        if let Some(theirs) = &clock.known {
            let seen = merged.as_ref().is_some_and(|merged| Arc::ptr_eq(merged, theirs));
            if !seen {
                for (slot, clock) in known.iter_mut().zip(theirs.iter()) {
                    *slot = (*slot).max(*clock);
                }
                merged = Some(theirs.clone());
            }
        }
        merge_others(&mut others, &clock.others);
    }
    for member in members {
        if let (Some(slot), Some(clock)) = (known.get_mut(*member as usize), clocks.get(*member as usize)) {
            *slot = clock.clock;
        }
    }
    let known: Arc<[u32]> = known.into();
    for member in members {
        if let Some(clock) = clocks.get_mut(*member as usize) {
            clock.known = Some(known.clone());
            clock.others = others.clone();
        }
    }
}

/// A whole-CTA barrier: a new epoch in which everyone knows everything before.
/// Fences of any thread before it count for each thread's later releases.
pub fn barrier(clocks: &mut [ThreadClock]) {
    let mut others = None;
    let mut fence: Option<Arc<Snapshot>> = None;
    for clock in clocks.iter() {
        merge_others(&mut others, &clock.others);
        if let Some(snapshot) = &clock.fence {
            fence = Some(merge_snapshots(fence, snapshot));
        }
    }
    for clock in clocks.iter_mut() {
        clock.epoch += 1;
        clock.known = None;
        clock.others = others.clone();
        clock.fence = fence.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::race::Access;

    fn at(clocks: &[ThreadClock], cta: u32, thread: u32) -> Record {
        let clock = &clocks[thread as usize];
        Record::new(cta * clocks.len() as u32 + thread, clock.epoch, clock.clock, 0, 15, Access::Write)
    }

    #[test]
    fn a_partial_join_orders_its_members_only() {
        let mut clocks = vec![ThreadClock::default(); 4];
        let (zero, three) = (at(&clocks, 0, 0), at(&clocks, 0, 3));
        join(&mut clocks, &[0, 1]);
        assert!(clocks[1].knows(&zero, 1, 0, 4));
        assert!(!clocks[1].knows(&three, 1, 0, 4));
        assert!(!clocks[2].knows(&zero, 2, 0, 4));
        let later = at(&clocks, 0, 0);
        assert!(!clocks[1].knows(&later, 1, 0, 4));
        barrier(&mut clocks);
        assert!(clocks[1].knows(&three, 1, 0, 4) && clocks[1].knows(&later, 1, 0, 4));
    }

    #[test]
    fn fence_and_flag_order_two_ctas() {
        let (mut a, mut b) = (vec![ThreadClock::default(); 2], vec![ThreadClock::default(); 2]);
        let data = at(&a, 0, 1);
        barrier(&mut a);
        a[0].fence(0, 0, 2);
        let late = at(&a, 0, 0);
        let flag = a[0].release(false, 0, 0).unwrap();
        b[0].acquire(&flag, false, 1, 2);
        assert!(!b[0].knows(&data, 2, 1, 2));
        b[0].fence(1, 0, 2);
        assert!(b[0].knows(&data, 2, 1, 2));
        assert!(!b[0].knows(&late, 2, 1, 2));
        barrier(&mut b);
        assert!(b[1].knows(&data, 3, 1, 2));
    }
}
