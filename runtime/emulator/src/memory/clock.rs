//! What a thread knows of the others: vector clocks that are short because a
//! whole-CTA barrier makes every thread know everything before it.

use std::{collections::BTreeMap, sync::Arc};

use super::race::Record;
use crate::decode::inst::Scope;

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
    /// What the last fence made ready to be released, to all CTAs and to this one.
    fence: Option<Arc<Snapshot>>,
    near_fence: Option<Arc<Snapshot>>,
    /// What strong reads saw, to be known after the next fence: released by other
    /// CTAs, and by this one.
    pending: Option<Arc<Snapshot>>,
    near_pending: Option<Arc<Snapshot>>,
}

/// What strong writes to a place made visible.
#[derive(Clone, Debug, Default)]
pub struct Released {
    /// To every CTA.
    device: Option<Arc<Snapshot>>,
    /// To the CTA of the writer.
    near: Option<Arc<Snapshot>>,
}

impl Released {
    /// Whether it makes anything visible.
    pub fn nothing(&self) -> bool {
        self.device.is_none() && self.near.is_none()
    }

    /// This, after the earlier `old` that an update leaves visible.
    pub fn after(self, old: &Released) -> Released {
        let joined = |new: Option<Arc<Snapshot>>, old: &Option<Arc<Snapshot>>| match (new, old) {
            (Some(new), Some(old)) => Some(merge_snapshots(Some(old.clone()), &new)),
            (new, old) => new.or_else(|| old.clone()),
        };
        let same = match (&self.near, &old.near) {
            (Some(new), Some(old)) => new.cta == old.cta,
            _ => true,
        };
        let near = if same { joined(self.near, &old.near) } else { self.near };
        Released { device: joined(self.device, &old.device), near }
    }
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

    /// A fence: what was done is ready to be released, what was read is known. One
    /// of CTA scope does so for what this CTA alone exchanges.
    pub fn fence(&mut self, scope: Scope, cta: u32, thread: u32, size: u32) {
        if let Some(pending) = self.near_pending.take() {
            self.learn(&pending, cta, size);
        }
        if scope == Scope::Device
            && let Some(pending) = self.pending.take()
        {
            self.learn(&pending, cta, size);
        }
        let snapshot = self.snapshot(cta, thread);
        if scope == Scope::Device {
            self.fence = Some(snapshot.clone());
        }
        self.near_fence = Some(snapshot);
    }

    /// What a strong write makes visible: after a fence, or when it releases.
    pub fn release(&mut self, releases: bool, scope: Scope, cta: u32, thread: u32) -> Released {
        let snapshot = releases.then(|| self.snapshot(cta, thread));
        let near = snapshot.clone().or_else(|| self.near_fence.clone());
        match scope {
            Scope::Cta => Released { device: None, near },
            Scope::Device => Released { device: snapshot.or_else(|| self.fence.clone()), near },
        }
    }

    /// A strong read of a location with a released snapshot.
    pub fn acquire(&mut self, released: &Released, acquires: bool, scope: Scope, cta: u32, size: u32) {
        for snapshot in [&released.device, &released.near].into_iter().flatten() {
            let mine = snapshot.cta == cta;
            let device = released.device.as_ref().is_some_and(|device| Arc::ptr_eq(device, snapshot));
            if !mine && (scope == Scope::Cta || !device) {
                continue;
            }
            if acquires {
                self.learn(snapshot, cta, size);
            } else if mine {
                self.near_pending = Some(merge_snapshots(self.near_pending.take(), snapshot));
            } else {
                self.pending = Some(merge_snapshots(self.pending.take(), snapshot));
            }
        }
    }

    /// What fences made ready and what reads left to be known.
    fn open(&self) -> [&Option<Arc<Snapshot>>; 4] {
        [&self.fence, &self.near_fence, &self.pending, &self.near_pending]
    }

    fn set_open(&mut self, open: &[Option<Arc<Snapshot>>; 4]) {
        let [fence, near_fence, pending, near_pending] = open.clone();
        (self.fence, self.near_fence) = (fence, near_fence);
        (self.pending, self.near_pending) = (pending, near_pending);
    }
}

/// Joins what the fences and reads of threads left open: behind a barrier any of
/// them may complete it.
fn join_open<'c>(clocks: impl Iterator<Item = &'c ThreadClock>) -> [Option<Arc<Snapshot>>; 4] {
    let mut joined: [Option<Arc<Snapshot>>; 4] = Default::default();
    for clock in clocks {
        for (all, one) in joined.iter_mut().zip(clock.open()) {
            if let Some(snapshot) = one {
                *all = Some(merge_snapshots(all.take(), snapshot));
            }
        }
    }
    joined
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
    let open = join_open(members.iter().filter_map(|member| clocks.get(*member as usize)));
    for member in members {
        if let Some(clock) = clocks.get_mut(*member as usize) {
            clock.known = Some(known.clone());
            clock.others = others.clone();
            clock.set_open(&open);
        }
    }
}

/// A whole-CTA barrier: a new epoch in which everyone knows everything before.
/// Fences of any thread before it count for each thread's later releases, and a
/// fence of any thread after it completes what another has read.
pub fn barrier(clocks: &mut [ThreadClock]) {
    let mut others = None;
    for clock in clocks.iter() {
        merge_others(&mut others, &clock.others);
    }
    let open = join_open(clocks.iter());
    for clock in clocks.iter_mut() {
        clock.epoch += 1;
        clock.known = None;
        clock.others = others.clone();
        clock.set_open(&open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::race::Access;

    fn at(clocks: &[ThreadClock], cta: u32, thread: u32) -> Record {
        let clock = &clocks[thread as usize];
        Record::new(cta * clocks.len() as u32 + thread, clock.epoch, clock.clock, 0, 15, Access::WRITE)
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
        a[0].fence(Scope::Device, 0, 0, 2);
        let late = at(&a, 0, 0);
        let flag = a[0].release(false, Scope::Device, 0, 0);
        b[0].acquire(&flag, false, Scope::Device, 1, 2);
        assert!(!b[0].knows(&data, 2, 1, 2));
        // A fence of CTA scope completes nothing that came from another CTA.
        b[0].fence(Scope::Cta, 1, 0, 2);
        assert!(!b[0].knows(&data, 2, 1, 2));
        b[0].fence(Scope::Device, 1, 0, 2);
        assert!(b[0].knows(&data, 2, 1, 2));
        assert!(!b[0].knows(&late, 2, 1, 2));
        barrier(&mut b);
        assert!(b[1].knows(&data, 3, 1, 2));
    }

    #[test]
    fn behind_a_barrier_any_thread_may_complete_what_one_has_read() {
        let (mut a, mut b) = (vec![ThreadClock::default(); 2], vec![ThreadClock::default(); 2]);
        let data = at(&a, 0, 1);
        barrier(&mut a);
        let flag = a[0].release(true, Scope::Device, 0, 0);
        b[0].acquire(&flag, false, Scope::Device, 1, 2);
        barrier(&mut b);
        b[1].fence(Scope::Device, 1, 1, 2);
        assert!(b[1].knows(&data, 3, 1, 2) && !b[0].knows(&data, 2, 1, 2));
    }

    #[test]
    fn a_release_of_cta_scope_is_none_to_another_cta() {
        let (mut a, mut b) = (vec![ThreadClock::default(); 2], vec![ThreadClock::default(); 2]);
        let data = at(&a, 0, 0);
        let flag = a[0].release(true, Scope::Cta, 0, 0);
        b[0].acquire(&flag, true, Scope::Device, 1, 2);
        assert!(!b[0].knows(&data, 2, 1, 2));
        a[1].acquire(&flag, true, Scope::Cta, 0, 2);
        assert!(a[1].knows(&data, 1, 0, 2));
        let flag = a[0].release(true, Scope::Device, 0, 0);
        b[0].acquire(&flag, true, Scope::Cta, 1, 2);
        assert!(!b[0].knows(&data, 2, 1, 2));
        b[0].acquire(&flag, true, Scope::Device, 1, 2);
        assert!(b[0].knows(&data, 2, 1, 2));
    }
}
