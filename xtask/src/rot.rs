//! The task `rot`: single bits flip in the files of populated databases, see `testkit::rot`.

use std::time::Instant;

use platform::simulated::Random;
use testkit::{
    database::AtRest,
    rot::{Flipped, images},
};

use crate::{Failure, checks::Checks, patience};

/// Flips `flips` bits, spread over databases at different stages.
pub(crate) fn run(at_rest: AtRest, flips: u64, seed: u64) -> Result<Checks, Failure> {
    let began = Instant::now();
    let mut checks = Checks::default();
    let mut random = Random::new(seed);
    let images =
        patience::wait_for(move || images(at_rest, seed)).ok_or("populating does not end")??;
    let quiet = crate::panics::silence();
    for (index, image) in (0..).zip(&images) {
        let (mut detected, mut harmless, mut torn) = (0, 0, 0);
        for _ in 0..share(flips, images.len() as u64, index) {
            let (path, offset, bit) = image.any_bit(&mut random);
            let flipped = image.flip(path, offset, bit);
            match flipped {
                Ok(Flipped::Detected(_)) => detected += 1,
                Ok(Flipped::Harmless) => harmless += 1,
                Ok(Flipped::TakenForTorn) => torn += 1,
                Err(_) => {}
            }
            checks.that(flipped.is_ok(), || {
                let fault = flipped.map_or_else(|fault| fault.to_string(), |_| String::new());
                format!(
                    "seed {seed}, {}: bit {bit} of byte {offset} of {}: {fault}",
                    image.name,
                    path.display()
                )
            });
        }
        println!(
            "rot: {}: {detected} detected, {harmless} harmless, {torn} in the journal's last \
             record, taken for a torn write",
            image.name
        );
    }
    drop(quiet);
    println!("rot: seed {seed}, {:.1} s", began.elapsed().as_secs_f64());
    Ok(checks)
}

/// The share of `count` for the database with this index.
fn share(count: u64, among: u64, index: u64) -> u64 {
    count / among + u64::from(index < count % among)
}
