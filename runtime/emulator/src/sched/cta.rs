//! The schedule within a CTA.

use crate::{
    decode::inst::{Op, WarpOp},
    exec::Executor,
    machine::{Cta, Group, State},
    report::{Fault, FaultKind, Side},
};

/// Instructions that a group runs before others of its CTA get a turn.
const TURN: u32 = 4096;

/// How a CTA stands after some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It can go on.
    Running,
    /// Every thread has exited, or the CTA was ended by a fault.
    Finished,
}

/// Runs a CTA for about `quantum` warp-instructions.
pub fn run(exec: &mut Executor<'_>, cta: &mut Cta, quantum: u64) -> Progress {
    let end = cta.executed.saturating_add(quantum);
    let mut steps = 0u32;
    while cta.executed < end {
        if cta.finished() {
            return Progress::Finished;
        }
        // A look at the clock is dear beside a step of few instructions.
        if steps.is_multiple_of(256)
            && let Some(how) = exec.options.interrupted()
        {
            interrupt(exec, cta, how);
            return Progress::Finished;
        }
        steps = steps.wrapping_add(1);
        let before = cta.executed;
        exec.idle = true;
        if !step(exec, cta) {
            // Copies land whether a thread runs or not.
            if exec.land_any(cta) {
                continue;
            }
            if !cta.finished() {
                deadlock(exec, cta);
                cta.aborted = true;
            }
            return Progress::Finished;
        }
        if limited(exec, cta, cta.executed - before) {
            return Progress::Finished;
        }
    }
    if cta.finished() { Progress::Finished } else { Progress::Running }
}

/// Runs some group; false when none can run.
fn step(exec: &mut Executor<'_>, cta: &mut Cta) -> bool {
    if exec.options.adversarial() { hostile(exec, cta) } else { converged(exec, cta) }
}

/// How often each instruction has run.
fn counts(exec: &Executor<'_>) -> Vec<u64> {
    exec.counters.by_pc.iter().map(|counts| counts.warp_instructions).collect()
}

/// Ends a CTA from outside. A few steps more show what it was at.
fn interrupt(exec: &mut Executor<'_>, cta: &mut Cta, how: &str) {
    /// Steps of at most some thousand instructions.
    const STEPS: usize = 16;
    exec.mark = Some(counts(exec));
    for _ in 0..STEPS {
        if cta.finished() || !step(exec, cta) {
            break;
        }
    }
    exec.ended = true;
    if !cta.finished() {
        stopped(exec, cta, FaultKind::Interrupted, &format!("ended {how}"));
    }
}

/// Ends a CTA that reached a limit, after `ran` more instructions.
fn limited(exec: &mut Executor<'_>, cta: &mut Cta, ran: u64) -> bool {
    exec.idle_for = if exec.idle { exec.idle_for + ran } else { 0 };
    let (most, idle) =
        (exec.options.max_instructions, exec.options.max_idle.min(exec.options.max_instructions));
    let near = exec.idle_for > idle / 2 || cta.executed > most / 8 * 7;
    if !near {
        exec.mark = None;
    } else if exec.mark.is_none() {
        exec.mark = Some(counts(exec));
    }
    if exec.idle_for > idle {
        let text = format!(
            "ended after {} warp-instructions: in the last {} no memory changed, no thread exited and no barrier completed",
            cta.executed, exec.idle_for
        );
        stopped(exec, cta, FaultKind::InstructionLimit, &text);
        return true;
    }
    if cta.executed > most {
        let text = format!("ended after {} warp-instructions", cta.executed);
        stopped(exec, cta, FaultKind::InstructionLimit, &text);
        return true;
    }
    false
}

/// Runs the group with the lowest program counter of the next warp, together
/// with all lanes that stand there.
fn converged(exec: &mut Executor<'_>, cta: &mut Cta) -> bool {
    let count = cta.warps.len();
    for step in 0..count {
        let w = (cta.last_warp + step) % count;
        let warp = &mut cta.warps[w];
        let starved = cta.starved;
        let pick = |groups: &[Group]| {
            let ready = groups.iter().enumerate().filter(|(_, group)| group.state == State::Ready);
            // A group that used up its turn may be waiting for another one.
            if starved {
                ready.max_by_key(|(_, group)| group.pc).map(|(at, _)| at)
            } else {
                ready.min_by_key(|(_, group)| group.pc).map(|(at, _)| at)
            }
        };
        let Some(mut chosen) = pick(&warp.groups) else { continue };
        if warp.groups.len() > 1 {
            let mut group = warp.groups.swap_remove(chosen);
            let mut next = u32::MAX;
            let mut kept = Vec::with_capacity(warp.groups.len());
            for other in std::mem::take(&mut warp.groups) {
                if other.state == State::Ready && other.pc == group.pc && other.stack == group.stack {
                    group.mask |= other.mask;
                } else {
                    if other.state == State::Ready && other.pc > group.pc {
                        next = next.min(other.pc);
                    }
                    kept.push(other);
                }
            }
            chosen = kept.len();
            kept.push(group);
            warp.groups = kept;
            exec.until = next;
        } else {
            exec.until = u32::MAX;
        }
        let before = cta.executed;
        exec.run(cta, w, chosen, TURN);
        cta.starved = !starved && cta.executed - before >= u64::from(TURN);
        // Stay with the warp while it can run: fewer switches, same result.
        cta.last_warp = if cta.starved { (w + 1) % count } else { w };
        return true;
    }
    false
}

/// Picks at random, in one of several tempers that the seed chooses.
fn hostile(exec: &mut Executor<'_>, cta: &mut Cta) -> bool {
    exec.until = u32::MAX;
    let seed = exec.options.seed();
    let quantum = [1, 3, 12, 60, 1000][(seed % 5) as usize];
    let most_groups = [4, 2, 32][(seed / 5 % 3) as usize];
    let sticky = seed / 15 % 2 == 1;
    let count = cta.warps.len();
    let start = if sticky && cta.random.below(64) != 0 {
        cta.last_warp
    } else {
        cta.random.below(count as u32) as usize
    };
    for step in 0..count {
        let w = (start + step) % count;
        let ready: Vec<usize> = cta.warps[w]
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.state == State::Ready)
            .map(|(at, _)| at)
            .collect();
        if ready.is_empty() {
            continue;
        }
        let chosen = ready[cta.random.below(ready.len() as u32) as usize];
        let groups = cta.warps[w].groups.len();
        let mask = cta.warps[w].groups[chosen].mask;
        if groups < most_groups && mask.count_ones() > 1 && cta.random.below(8) == 0 {
            let part = mask & cta.random.bits() as u32;
            if part != 0 && part != mask {
                let other = Group { mask: mask & !part, ..cta.warps[w].groups[chosen].clone() };
                cta.warps[w].groups[chosen].mask = part;
                cta.warps[w].groups.push(other);
            }
        }
        cta.last_warp = w;
        let budget = 1 + cta.random.below(quantum);
        exec.run(cta, w, chosen, budget);
        return true;
    }
    false
}

fn waits(exec: &Executor<'_>, cta: &Cta) -> Vec<(u32, Side, u32)> {
    let mut waits: Vec<(u32, Side, u32)> = Vec::new();
    for (w, warp) in cta.warps.iter().enumerate() {
        for group in &warp.groups {
            let what = match group.state {
                State::Ready => "can run",
                State::Sync(_) => "waits for its member mask",
                State::Barrier(_) => "waits at a barrier",
                State::Phase(_) => "waits for an mbarrier",
            };
            match waits.iter_mut().find(|(pc, side, _)| *pc == group.pc && side.what == what) {
                Some((_, _, threads)) => *threads += group.mask.count_ones(),
                None => {
                    let thread = w as u32 * 32 + group.mask.trailing_zeros();
                    let thread = exec.thread_place(cta.index, thread);
                    let side = Side { pc: group.pc, thread, what: what.to_owned() };
                    waits.push((group.pc, side, group.mask.count_ones()));
                }
            }
        }
    }
    waits
}

/// Nothing can run: says who waits where.
fn deadlock(exec: &mut Executor<'_>, cta: &Cta) {
    let waits = waits(exec, cta);
    let total: u32 = waits.iter().map(|(_, _, threads)| threads).sum();
    let exited = cta.threads - cta.live_threads();
    let matrix = waits.iter().find(|(pc, side, _)| {
        side.what.starts_with("waits for")
            && matches!(
                exec.kernel.code.get(*pc as usize).map(|inst| &inst.op),
                Some(Op::Warp {
                    op: WarpOp::Mma(_)
                        | WarpOp::LoadMatrix(_)
                        | WarpOp::StoreMatrix(_)
                        | WarpOp::TransposeMatrix { .. }
                        | WarpOp::Wmma(_)
                        | WarpOp::Wgmma(_),
                    ..
                })
            )
    });
    let kind = if matrix.is_some() { FaultKind::MissingLanes } else { FaultKind::Deadlock };
    let Some((pc, first, _)) = matrix.or(waits.first()).cloned() else { return };
    let others = waits
        .into_iter()
        .map(|(_, side, threads)| Side { what: format!("{threads} threads: {}", side.what), ..side })
        .collect();
    exec.faults.report(kind, pc, u32::MAX, || Fault {
        kind,
        pc,
        thread: first.thread,
        address: None,
        message: format!("{total} threads wait forever, {exited} have exited"),
        others,
        count: 1,
    });
}

/// Lines of a loop that a report shows.
const LOOP_LINES: usize = 8;

/// Ends the launch with a report of where it stands and of the loop it is in.
fn stopped(exec: &mut Executor<'_>, cta: &mut Cta, kind: FaultKind, text: &str) {
    cta.aborted = true;
    exec.ended = true;
    let Some((w, group)) =
        cta.warps.iter().enumerate().find_map(|(w, warp)| warp.groups.first().map(|group| (w, group)))
    else {
        return;
    };
    let thread = exec.thread_place(cta.index, w as u32 * 32 + group.mask.trailing_zeros());
    let mut others = Vec::new();
    let mut last_line = 0;
    for (pc, before) in exec.mark.take().unwrap_or_default().into_iter().enumerate() {
        let ran = exec.counters.by_pc.get(pc).map_or(0, |counts| counts.warp_instructions) > before;
        let line = exec.kernel.places.get(pc).map_or(0, |place| place.pos.line);
        if ran && line != last_line && others.len() < LOOP_LINES {
            others.push(Side { pc: pc as u32, thread, what: "in the loop:".to_owned() });
            last_line = line;
        }
    }
    let pc = group.pc;
    exec.faults.report(kind, pc, u32::MAX, || Fault {
        kind,
        pc,
        thread,
        address: None,
        message: text.to_owned(),
        others,
        count: 1,
    });
}
