//! One computation per key among the threads of a process: the first to ask computes,
//! those who ask meanwhile get the same result.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    flying: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

#[derive(Debug)]
struct Flight<V> {
    state: Mutex<State<V>>,
    landed: Condvar,
}

#[derive(Debug)]
enum State<V> {
    Flying,
    Landed(V),
    /// The computation panicked.
    Lost,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Flights { flying: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Flights<K, V> {
    /// The value of `key`: from `compute`, or from the thread that computes it already.
    /// The flag says whether it was another thread.
    pub(crate) fn run(&self, key: &K, compute: impl FnOnce() -> V) -> (V, bool) {
        loop {
            let flight = {
                let mut flying = lock(&self.flying);
                match flying.get(key) {
                    Some(flight) => Arc::clone(flight),
                    None => {
                        let flight =
                            Arc::new(Flight { state: Mutex::new(State::Flying), landed: Condvar::new() });
                        flying.insert(key.clone(), Arc::clone(&flight));
                        drop(flying);
                        let mut pilot = Pilot { flights: self, key, flight, outcome: State::Lost };
                        let value = compute();
                        pilot.outcome = State::Landed(value.clone());
                        return (value, false);
                    }
                }
            };
            let mut state = lock(&flight.state);
            while matches!(*state, State::Flying) {
                state = flight.landed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if let State::Landed(value) = &*state {
                return (value.clone(), true);
            }
        }
    }
}

/// Ends the flight when dropped, also by a panic.
struct Pilot<'a, K: Eq + Hash, V> {
    flights: &'a Flights<K, V>,
    key: &'a K,
    flight: Arc<Flight<V>>,
    outcome: State<V>,
}

impl<K: Eq + Hash, V> Drop for Pilot<'_, K, V> {
    fn drop(&mut self) {
        lock(&self.flights.flying).remove(self.key);
        *lock(&self.flight.state) = std::mem::replace(&mut self.outcome, State::Lost);
        self.flight.landed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both states are valid between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicU32, Ordering},
        },
        thread,
    };

    use super::*;

    /// Waits until `others` beside the one who computes have asked for `key`.
    fn wait_for_askers(flights: &Flights<u32, u32>, key: u32, others: usize) {
        // The map and the one who computes hold the flight too.
        while lock(&flights.flying).get(&key).is_some_and(|flight| Arc::strong_count(flight) < others + 2) {
            thread::yield_now();
        }
    }

    #[test]
    fn threads_that_ask_together_compute_once() {
        let flights = Flights::<u32, u32>::default();
        let (computed, shared, barrier) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(8));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let (value, was_shared) = flights.run(&7, || {
                        wait_for_askers(&flights, 7, 7);
                        computed.fetch_add(1, Ordering::SeqCst);
                        49
                    });
                    assert_eq!(value, 49);
                    shared.fetch_add(u32::from(was_shared), Ordering::SeqCst);
                });
            }
        });
        assert_eq!((computed.into_inner(), shared.into_inner()), (1, 7));
        assert!(lock(&flights.flying).is_empty());
    }

    #[test]
    fn a_panic_passes_the_work_on() {
        let flights = Flights::<u32, u32>::default();
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                flights.run(&1, || {
                    barrier.wait();
                    wait_for_askers(&flights, 1, 1);
                    panic!("as the test wants")
                })
            });
            let second = scope.spawn(|| {
                barrier.wait();
                flights.run(&1, || 2)
            });
            assert!(first.join().is_err());
            assert_eq!(second.join().unwrap().0, 2);
        });
    }
}
