//! The pseudo-random numbers of the sampler: small, seeded, the same everywhere.

/// xoshiro256++ (Blackman and Vigna 2021, "Scrambled linear pseudorandom number
/// generators", ACM TOMS 47(4)), its state filled by SplitMix64 as the authors advise.
///
/// Not for secrets: the sequence follows from the seed.
#[derive(Clone, Debug)]
pub struct Xoshiro256 {
    state: [u64; 4],
}

impl Xoshiro256 {
    /// The generator of `seed`; every seed is good, zero included.
    pub fn new(seed: u64) -> Xoshiro256 {
        let mut counter = seed;
        let state = [(); 4].map(|()| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Xoshiro256 { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for the state 1, 2, 3, 4, as the authors' reference code gives them.
    #[test]
    fn matches_the_published_sequence() {
        let mut random = Xoshiro256 { state: [1, 2, 3, 4] };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    /// SplitMix64 from seed 0 starts with this value in the authors' reference code.
    #[test]
    fn the_seed_is_spread_by_splitmix64() {
        assert_eq!(Xoshiro256::new(0).state[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn unit_covers_the_half_open_interval_evenly() {
        let mut random = Xoshiro256::new(7);
        let mut buckets = [0u32; 10];
        for _ in 0..10_000 {
            let value = random.unit();
            assert!((0.0..1.0).contains(&value));
            buckets[(value * 10.0) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (850..1150).contains(count)), "{buckets:?}");
    }
}
