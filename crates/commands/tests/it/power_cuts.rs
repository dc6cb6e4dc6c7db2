//! Power cuts between and inside transactions: every acknowledged batch is there, whole; none in part.

use std::sync::Arc;

use platform::{
    Platform,
    simulated::{OperationFilter, Random, Simulation, Survival},
};
use storage::Environment;

use crate::{
    database::{content, execute, open},
    histories::random_batch,
    naive::Naive,
};

/// Power cuts in the whole test.
const CUTS: u64 = 500;
/// Cuts that one database lives through.
const CUTS_PER_DATABASE: u64 = 5;
/// A cut happens within so many changes of the disk after the start.
const OPERATIONS_MAX: u64 = 40;
const TRANSACTIONS_MAX: u64 = 30;

/// What has to be on the disk: everything acknowledged, and maybe the transaction in flight.
struct Expected {
    acknowledged: Naive,
    in_flight: Option<Naive>,
}

#[test]
fn every_acknowledged_batch_survives_whole_and_none_in_part() {
    let mut survived_in_flight = 0;
    for seed in 0..CUTS / CUTS_PER_DATABASE {
        let simulation = Platform::simulated(seed);
        let mut random = Random::new(seed ^ 0x5eed);
        let mut expected = Expected { acknowledged: Naive::default(), in_flight: None };
        for cut in 0..CUTS_PER_DATABASE {
            let nth = 1 + random.below(OPERATIONS_MAX);
            simulation.disk.cut_power_at_operation(nth, Survival::Random);
            live_until_the_cut(&simulation, &mut random, &mut expected);
            simulation.disk.restart().unwrap();
            let environment = open(&simulation.platform).unwrap();
            let found = content(&environment);
            let with_flight = expected.in_flight.take();
            match with_flight.filter(|naive| naive.content() == found) {
                Some(naive) => {
                    survived_in_flight += 1;
                    expected.acknowledged = naive;
                }
                None => {
                    let acknowledged = expected.acknowledged.content();
                    assert_eq!(found, acknowledged, "seed {seed} cut {cut} at operation {nth}");
                }
            }
        }
    }
    // Both outcomes of a transaction in flight occur, or the cuts do not hit what they should.
    assert!((1..CUTS).contains(&survived_in_flight), "{survived_in_flight}");
}

/// Opens the database and writes until the power is gone, or long enough.
fn live_until_the_cut(simulation: &Simulation, random: &mut Random, expected: &mut Expected) {
    let Ok(environment) = open(&simulation.platform) else {
        assert!(simulation.disk.is_power_lost(), "only the power keeps it from opening");
        return;
    };
    for _ in 0..TRANSACTIONS_MAX {
        let mut next = expected.acknowledged.clone();
        match write_transaction(simulation, &environment, random, &mut next) {
            Ok(()) => expected.acknowledged = next,
            Err(()) => {
                assert!(simulation.disk.is_power_lost(), "only the power keeps it from writing");
                expected.in_flight = Some(next);
                return;
            }
        }
        if random.below(5) == 0 && environment.flush().is_err() {
            assert!(simulation.disk.is_power_lost(), "only the power keeps it from flushing");
            return;
        }
    }
}

/// A few batches in one transaction; an error when it was not acknowledged.
fn write_transaction(
    simulation: &Simulation,
    environment: &Arc<Environment>,
    random: &mut Random,
    naive: &mut Naive,
) -> Result<(), ()> {
    let mut tx = environment.write().map_err(drop)?;
    for _ in 0..1 + random.below(3) {
        let batch = random_batch(random, naive);
        let real = execute(&mut tx, &simulation.platform, &batch);
        assert_eq!(real.is_ok(), naive.apply(&batch).is_ok());
    }
    tx.commit().map_err(drop)
}

#[test]
fn the_cuts_reach_into_transactions() {
    let simulation = Platform::simulated(3);
    let environment = open(&simulation.platform).unwrap();
    let before = simulation.disk.operation_count(OperationFilter::Mutating);
    assert!(before < OPERATIONS_MAX, "opening alone takes {before} changes of the disk");
    let (mut random, mut naive) = (Random::new(3), Naive::default());
    for _ in 0..TRANSACTIONS_MAX {
        write_transaction(&simulation, &environment, &mut random, &mut naive).unwrap();
    }
    let after = simulation.disk.operation_count(OperationFilter::Mutating);
    assert!(OPERATIONS_MAX <= after, "a whole life takes only {after} changes of the disk");
}
