//! From logits to a token: penalties, truncation, temperature, one draw.
//!
//! The order is: repetition penalty, presence penalty, then, when the temperature
//! is 0, the best token; otherwise top-k, top-p, min-p (each on the distribution
//! that the one before left, at temperature 1), temperature, draw. At least one
//! candidate is always left. Equal logits rank by token id, so that a seed gives the
//! same tokens on every machine whose logits are the same.

use std::{cmp::Ordering, collections::HashSet};

use crate::random::Xoshiro256;

/// How the next token is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 takes the best token.
    pub temperature: f32,
    /// Keep this many best tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the best tokens whose probabilities reach this sum (Holtzman et al. 2020,
    /// arXiv:1904.09751); 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the best one (Nguyen et al. 2024,
    /// arXiv:2407.01082); 0 keeps all.
    pub min_p: f32,
    /// Subtracted once from the logit of each token that the answer already has.
    pub presence_penalty: f32,
    /// Divides positive and multiplies negative logits of each token that the prompt or
    /// the answer already has, once per distinct token (Keskar et al. 2019,
    /// arXiv:1909.05858, with the sign rule in use since); 1 changes nothing.
    pub repetition_penalty: f32,
    /// The seed of the draws.
    pub seed: u64,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            presence_penalty: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }
}

/// Why a token cannot be sampled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// A parameter is outside its range.
    #[error("{name} is {value}: expected {expected}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: f32,
        /// What is accepted.
        expected: &'static str,
    },
    /// The model gave logits that no probability follows from.
    #[error("the model's logit of token {token} is {value}: its weights or a kernel are damaged")]
    BadLogit {
        /// The token.
        token: usize,
        /// NaN or infinity.
        value: f32,
    },
    /// The model gave no logit above minus infinity.
    #[error("the model's logits exclude every token")]
    NoCandidate,
}

impl SamplingParams {
    /// Checks every parameter against its range.
    pub fn validate(&self) -> Result<(), SamplerError> {
        let check = |name, value: f32, ok: bool, expected| match ok {
            true => Ok(()),
            false => Err(SamplerError::OutOfRange { name, value, expected }),
        };
        let t = self.temperature;
        check("temperature", t, t.is_finite() && t >= 0.0, "0 (greedy) or a positive number")?;
        check("top-p", self.top_p, (0.0..=1.0).contains(&self.top_p), "0 to 1")?;
        check("min-p", self.min_p, (0.0..=1.0).contains(&self.min_p), "0 to 1")?;
        check("presence penalty", self.presence_penalty, self.presence_penalty.is_finite(), "a number")?;
        let r = self.repetition_penalty;
        check("repetition penalty", r, r.is_finite() && r > 0.0, "a positive number (1 changes nothing)")
    }
}

/// Chooses tokens of one answer, and remembers which tokens it has.
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplingParams,
    random: Xoshiro256,
    /// Tokens of the prompt and the answer.
    context: HashSet<u32>,
    /// Tokens of the answer.
    answer: HashSet<u32>,
    /// Memory for logits with penalties.
    penalised: Vec<f32>,
}

/// A token that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: u32,
    logit: f32,
}

/// Best first; equal logits by token id.
fn best_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Logits that are looked at together: loops over so many have no branch, and are made of
/// vectors.
const CHUNK: usize = 128;

/// An integer in whose order `f32::total_cmp` puts the logit.
fn key(logit: f32) -> i32 {
    let bits = logit.to_bits() as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// The largest key; `i32::MIN`, which is none's but a NaN's, of nothing.
fn largest(logits: &[f32]) -> i32 {
    logits.iter().map(|logit| key(*logit)).fold(i32::MIN, i32::max)
}

/// Refuses NaN and infinity.
fn check(logits: &[f32]) -> Result<(), SamplerError> {
    for (index, chunk) in logits.chunks(CHUNK).enumerate() {
        let good = |logit: &f32| *logit < f32::INFINITY;
        if !chunk.iter().fold(true, |all, logit| all & good(logit)) {
            let bad = chunk.iter().enumerate().find(|(_, logit)| !good(logit));
            let (token, value) = bad.map_or((0, f32::NAN), |(token, value)| (token, *value));
            return Err(SamplerError::BadLogit { token: index * CHUNK + token, value });
        }
    }
    Ok(())
}

/// The tokens that are not excluded.
fn finite(logits: &[f32]) -> impl Iterator<Item = Candidate> {
    let candidates = (0u32..).zip(logits).map(|(token, logit)| Candidate { token, logit: *logit });
    candidates.filter(|candidate| candidate.logit != f32::NEG_INFINITY)
}

/// The best token.
fn best(logits: &[f32]) -> Option<u32> {
    let (mut best, mut first, mut among) = (key(f32::NEG_INFINITY), 0, &[][..]);
    for (index, chunk) in logits.chunks(CHUNK).enumerate() {
        let here = largest(chunk);
        // Of equals the first chunk stays.
        if here > best {
            (best, first, among) = (here, index * CHUNK, chunk);
        }
    }
    let place = among.iter().position(|logit| key(*logit) == best)?;
    u32::try_from(first + place).ok()
}

/// The `k` best tokens in no order, or all when there are fewer; `k` is not 0.
fn best_of(logits: &[f32], k: usize) -> Vec<Candidate> {
    let room = k.saturating_mul(4).clamp(CHUNK, logits.len().max(CHUNK));
    let mut kept: Vec<Candidate> = Vec::with_capacity(room);
    // What does not exceed it has `k` better ones, or equals before it.
    let mut threshold = key(f32::NEG_INFINITY);
    for (index, chunk) in logits.chunks(CHUNK).enumerate() {
        if largest(chunk) <= threshold {
            continue;
        }
        for (place, logit) in chunk.iter().enumerate() {
            if key(*logit) <= threshold {
                continue;
            }
            kept.push(Candidate { token: (index * CHUNK + place) as u32, logit: *logit });
            if kept.len() == room && k < room {
                kept.select_nth_unstable_by(k - 1, best_first);
                kept.truncate(k);
                threshold = kept.last().map_or(threshold, |worst| key(worst.logit));
            }
        }
    }
    if k < kept.len() {
        kept.select_nth_unstable_by(k - 1, best_first);
        kept.truncate(k);
    }
    kept
}

impl Sampler {
    /// A sampler for an answer to `prompt`.
    pub fn new(params: SamplingParams, prompt: &[u32]) -> Result<Sampler, SamplerError> {
        params.validate()?;
        let random = Xoshiro256::new(params.seed);
        let context = prompt.iter().copied().collect();
        Ok(Sampler { params, random, context, answer: HashSet::new(), penalised: Vec::new() })
    }

    /// Chooses the next token from `logits` (one per token of the vocabulary) and
    /// remembers it as part of the answer.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplerError> {
        check(logits)?;
        let mut penalised = std::mem::take(&mut self.penalised);
        let chosen = match self.penalise(logits, &mut penalised) {
            true => self.choose(&penalised),
            false => self.choose(logits),
        };
        self.penalised = penalised;
        let token = chosen?;
        self.context.insert(token);
        self.answer.insert(token);
        Ok(token)
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32, SamplerError> {
        if self.params.temperature == 0.0 {
            return best(logits).ok_or(SamplerError::NoCandidate);
        }
        let mut candidates = match self.params.top_k as usize {
            0 => finite(logits).collect(),
            k => best_of(logits, k),
        };
        self.truncate(&mut candidates);
        self.draw(&candidates)
    }

    /// Puts the logits with penalties into `penalised`; false when there are none to apply.
    fn penalise(&self, logits: &[f32], penalised: &mut Vec<f32>) -> bool {
        let p = &self.params;
        if p.repetition_penalty == 1.0 && p.presence_penalty == 0.0 {
            return false;
        }
        penalised.clear();
        penalised.extend_from_slice(logits);
        // The answer is a part of the context.
        for token in &self.context {
            let Some(logit) = penalised.get_mut(*token as usize) else { continue };
            if *logit == f32::NEG_INFINITY {
                continue;
            }
            let factor = p.repetition_penalty;
            let mut value = if *logit > 0.0 { *logit / factor } else { *logit * factor };
            if self.answer.contains(token) {
                value -= p.presence_penalty;
            }
            // A finite logit stays a candidate even under an enormous penalty.
            *logit = value.clamp(f32::MIN, f32::MAX);
        }
        true
    }

    /// Sorts the best tokens, of which top-k left these, and applies top-p and min-p.
    fn truncate(&self, candidates: &mut Vec<Candidate>) {
        let p = &self.params;
        candidates.sort_unstable_by(best_first);
        let Some(best) = candidates.first().map(|candidate| candidate.logit) else { return };
        let weight = |candidate: &Candidate| f64::from(candidate.logit - best).exp();
        if p.top_p < 1.0 {
            let total: f64 = candidates.iter().map(weight).sum();
            let mut sum = 0.0;
            let enough = candidates.iter().position(|candidate| {
                sum += weight(candidate);
                sum >= f64::from(p.top_p) * total
            });
            candidates.truncate(enough.map_or(candidates.len(), |last| last + 1));
        }
        if p.min_p > 0.0 {
            let kept = candidates.iter().take_while(|c| weight(c) >= f64::from(p.min_p)).count();
            candidates.truncate(kept.max(1));
        }
    }

    /// Draws by the probabilities at the temperature. `candidates` is best first.
    fn draw(&mut self, candidates: &[Candidate]) -> Result<u32, SamplerError> {
        let best = candidates.first().ok_or(SamplerError::NoCandidate)?;
        let temperature = f64::from(self.params.temperature);
        // The best logit is taken off before the division, so that a tiny
        // temperature gives weights 1 and 0 and not infinities.
        let weight = |c: &Candidate| ((f64::from(c.logit) - f64::from(best.logit)) / temperature).exp();
        let total: f64 = candidates.iter().map(weight).sum();
        let mut rest = self.random.unit() * total;
        for candidate in candidates {
            rest -= weight(candidate);
            if rest < 0.0 {
                return Ok(candidate.token);
            }
        }
        // Rounding may leave a crumb; it belongs to the best token.
        Ok(best.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greedy() -> SamplingParams {
        SamplingParams { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingParams::default() }
    }

    fn plain() -> SamplingParams {
        SamplingParams { temperature: 1.0, ..greedy() }
    }

    fn sampler(params: SamplingParams) -> Sampler {
        Sampler::new(params, &[]).unwrap()
    }

    /// Which tokens come out in many draws from the same logits.
    fn drawn(params: SamplingParams, logits: &[f32]) -> Vec<u32> {
        let mut tokens = HashSet::new();
        let mut sampler = sampler(params);
        for _ in 0..2000 {
            tokens.insert(sampler.sample(logits).unwrap());
        }
        let mut tokens: Vec<u32> = tokens.into_iter().collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn zero_and_tiny_temperatures_take_the_best_token() {
        let logits = [1.0, 3.0, 2.999, -5.0];
        assert_eq!(drawn(greedy(), &logits), [1]);
        assert_eq!(drawn(SamplingParams { temperature: 1e-6, ..plain() }, &logits), [1]);
        assert_eq!(drawn(SamplingParams { temperature: f32::MIN_POSITIVE, ..plain() }, &logits), [1]);
    }

    #[test]
    fn equal_logits_go_to_the_lower_token() {
        assert_eq!(sampler(greedy()).sample(&[2.0, 5.0, 5.0]), Ok(1));
    }

    /// The best tokens as a sort of all finds them.
    fn sorted(logits: &[f32]) -> Vec<u32> {
        let mut all: Vec<Candidate> = finite(logits).collect();
        all.sort_by(best_first);
        all.iter().map(|candidate| candidate.token).collect()
    }

    #[test]
    fn the_best_and_the_k_best_are_those_of_a_sort() {
        let mut random = Xoshiro256::new(7);
        for len in [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 2000] {
            // Of 5 values there are many ties, of 1000 few; rising ones fill the room again and again.
            for values in [1u32, 5, 1000] {
                let mut logits: Vec<f32> =
                    (0..len).map(|_| (random.unit() * f64::from(values)) as u32 as f32 - 2.0).collect();
                for rising in [false, true] {
                    if rising {
                        logits.sort_by(f32::total_cmp);
                    }
                    let sorted = sorted(&logits);
                    assert_eq!(best(&logits), sorted.first().copied(), "{len} {values}");
                    for k in [1, 2, 3, 40, len, len + 1, usize::MAX] {
                        let mut found = best_of(&logits, k);
                        found.sort_by(best_first);
                        let found: Vec<u32> = found.iter().map(|candidate| candidate.token).collect();
                        assert_eq!(found, sorted[..k.min(len)], "{k} of {len}, {values} values");
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_and_excluded_tokens_rank_as_in_a_total_order() {
        let logits = [f32::NEG_INFINITY, -0.0, 0.0, f32::MIN, -0.0, f32::NEG_INFINITY];
        assert_eq!(sorted(&logits), [2, 1, 4, 3]);
        assert_eq!(best(&logits), Some(2));
        let mut found = best_of(&logits, 3);
        found.sort_by(best_first);
        assert_eq!(found.iter().map(|candidate| candidate.token).collect::<Vec<_>>(), [2, 1, 4]);
        assert_eq!(best_of(&logits, 5).len(), 4);
        for pair in [f32::NEG_INFINITY, f32::MIN, -1.0, -0.0, 0.0, 1e-45, 1.0, f32::MAX].windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn values_out_of_range_are_errors_that_name_the_parameter() {
        for (params, name) in [
            (SamplingParams { temperature: -1.0, ..plain() }, "temperature"),
            (SamplingParams { temperature: f32::NAN, ..plain() }, "temperature"),
            (SamplingParams { top_p: 1.5, ..plain() }, "top-p"),
            (SamplingParams { top_p: f32::NAN, ..plain() }, "top-p"),
            (SamplingParams { min_p: -0.1, ..plain() }, "min-p"),
            (SamplingParams { presence_penalty: f32::INFINITY, ..plain() }, "presence penalty"),
            (SamplingParams { repetition_penalty: 0.0, ..plain() }, "repetition penalty"),
            (SamplingParams { repetition_penalty: -1.5, ..plain() }, "repetition penalty"),
        ] {
            let error = Sampler::new(params, &[]).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{name} is ")), "{error}");
        }
    }

    #[test]
    fn the_repetition_penalty_lowers_logits_of_either_sign_once() {
        let params = SamplingParams { repetition_penalty: 1.5, ..greedy() };
        let seen = Sampler::new(params, &[0, 1, 1, 0]).unwrap();
        let mut logits = Vec::new();
        assert!(seen.penalise(&[-2.0, 3.0, 7.0], &mut logits));
        assert_eq!(logits, [-3.0, 2.0, 7.0]);
    }

    #[test]
    fn the_presence_penalty_counts_the_answer_and_not_the_prompt() {
        let params = SamplingParams { presence_penalty: 1.5, ..greedy() };
        let mut sampler = Sampler::new(params, &[2]).unwrap();
        assert_eq!(sampler.sample(&[0.0, 1.0, 2.0]), Ok(2));
        assert_eq!(sampler.sample(&[0.0, 1.0, 2.0]), Ok(1));
        assert_eq!(sampler.sample(&[0.0, 1.0, 2.0]), Ok(2));
    }

    #[test]
    fn truncation_keeps_the_right_tokens() {
        // Probabilities 0.64, 0.24, 0.09, 0.03.
        let logits = [0.0, 1.0, 2.0, -1.0];
        assert_eq!(drawn(plain(), &logits), [0, 1, 2, 3]);
        assert_eq!(drawn(SamplingParams { top_k: 2, ..plain() }, &logits), [1, 2]);
        assert_eq!(drawn(SamplingParams { top_p: 0.6, ..plain() }, &logits), [2]);
        assert_eq!(drawn(SamplingParams { top_p: 0.8, ..plain() }, &logits), [1, 2]);
        assert_eq!(drawn(SamplingParams { min_p: 0.3, ..plain() }, &logits), [1, 2]);
        assert_eq!(drawn(SamplingParams { top_k: 3, top_p: 0.99, min_p: 0.2, ..plain() }, &logits), [1, 2]);
    }

    #[test]
    fn one_candidate_is_left_by_the_strictest_values_together() {
        let params = SamplingParams { top_k: 1, top_p: 0.0, min_p: 1.0, ..plain() };
        assert_eq!(drawn(params, &[0.0, 4.0, 2.0]), [1]);
        let params = SamplingParams { presence_penalty: f32::MAX, repetition_penalty: f32::MAX, ..plain() };
        assert_eq!(drawn(params, &[-3.0]), [0]);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.0, 3f32.ln()];
        let mut sampler = sampler(plain());
        let ones = (0..10_000).filter(|_| sampler.sample(&logits) == Ok(1)).count();
        assert!((7300..7700).contains(&ones), "{ones} of 10000, expected 7500");
    }

    #[test]
    fn the_seed_decides_the_tokens() {
        let logits: Vec<f32> = (0..50).map(|i| (i as f32 * 0.7).sin()).collect();
        let run = |seed| {
            let mut sampler = sampler(SamplingParams { seed, ..plain() });
            (0..40).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn logits_without_a_distribution_are_errors() {
        for params in [greedy(), plain()] {
            let mut sampler = sampler(params);
            let error = sampler.sample(&[0.0, f32::NAN]).unwrap_err();
            assert!(matches!(error, SamplerError::BadLogit { token: 1, .. }), "{error}");
            let error = sampler.sample(&[f32::INFINITY, 0.0]).unwrap_err();
            assert!(matches!(error, SamplerError::BadLogit { token: 0, .. }), "{error}");
            assert_eq!(sampler.sample(&[f32::NEG_INFINITY; 3]), Err(SamplerError::NoCandidate));
            assert_eq!(sampler.sample(&[]), Err(SamplerError::NoCandidate));
            assert_eq!(sampler.sample(&[f32::NEG_INFINITY, -80.0]), Ok(1));
        }
    }
}
