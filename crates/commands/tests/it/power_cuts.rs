//! Power cuts between and inside transactions: every acknowledged batch survives completely; no
//! other survives in part.

use testkit::{
    crash::{CUTS_PER_DATABASE, survive},
    database::AtRest,
};

/// Power cuts in the test; `cargo xtask crash` does any number.
const CUTS: u64 = 600;

#[test]
fn every_acknowledged_batch_survives_whole_and_none_in_part() {
    for seed in 0..CUTS / CUTS_PER_DATABASE {
        let at_rest = if seed % 3 == 0 { AtRest::Encrypted } else { AtRest::Plain };
        let survived = survive(at_rest, seed).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(survived.cuts, CUTS_PER_DATABASE, "seed {seed}");
    }
}
