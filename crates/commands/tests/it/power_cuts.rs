//! Power cuts between and inside transactions: every acknowledged batch is there, whole; none in part.

use std::sync::Arc;

use platform::{
    Platform,
    simulated::{OperationFilter, Random, Simulation, Survival},
};
use storage::{Environment, StorageError, WriteTransaction};

use crate::{
    database::{content, execute, open},
    histories::random_batch,
    naive::Naive,
};

/// Power cuts in the whole test.
const CUTS: u64 = 600;
/// Cuts that one database lives through.
const CUTS_PER_DATABASE: u64 = 5;
/// A cut happens within so many changes of the disk after the start.
const OPERATIONS_MAX: u64 = 60;
const TRANSACTIONS_MAX: u64 = 60;

/// What has to be on the disk: everything acknowledged, and maybe the transaction in flight.
struct Expected {
    acknowledged: Naive,
    in_flight: Option<Naive>,
}

impl Expected {
    fn on_its_way(&mut self, naive: Naive) {
        self.in_flight = Some(naive);
    }

    fn arrived(&mut self) {
        self.acknowledged = self.in_flight.take().expect("something was on its way");
    }
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
        let written = match random.below(3) {
            0 => write_two_transactions(simulation, &environment, random, expected),
            _ => write_transaction(simulation, &environment, random, expected),
        };
        if written.is_err() {
            assert!(simulation.disk.is_power_lost(), "only the power keeps it from writing");
            return;
        }
        if random.below(5) == 0 && environment.flush().is_err() {
            assert!(simulation.disk.is_power_lost(), "only the power keeps it from flushing");
            return;
        }
    }
}

/// One transaction; an error when it was not acknowledged.
fn write_transaction(
    simulation: &Simulation,
    environment: &Arc<Environment>,
    random: &mut Random,
    expected: &mut Expected,
) -> Result<(), StorageError> {
    let mut tx = environment.write()?;
    let next = fill(&mut tx, simulation, random, &expected.acknowledged);
    expected.on_its_way(next);
    tx.commit()?;
    expected.arrived();
    Ok(())
}

/// Two transactions, the second built on the first before that is durable, as the commit queue does.
fn write_two_transactions(
    simulation: &Simulation,
    environment: &Arc<Environment>,
    random: &mut Random,
    expected: &mut Expected,
) -> Result<(), StorageError> {
    let mut tx = environment.write()?;
    let first = fill(&mut tx, simulation, random, &expected.acknowledged);
    let sealed = tx.seal()?;
    let mut tx = environment.write()?;
    let second = fill(&mut tx, simulation, random, &first);
    expected.on_its_way(first);
    sealed.make_durable()?;
    expected.arrived();
    expected.on_its_way(second);
    tx.seal()?.make_durable()?;
    expected.arrived();
    Ok(())
}

/// A few batches in one transaction; gives what the naive database is then.
fn fill(
    tx: &mut WriteTransaction,
    simulation: &Simulation,
    random: &mut Random,
    before: &Naive,
) -> Naive {
    let mut naive = before.clone();
    for _ in 0..1 + random.below(3) {
        let batch = random_batch(random, &naive);
        let real = execute(tx, &simulation.platform, &batch);
        assert_eq!(real.is_ok(), naive.apply(&batch).is_ok());
    }
    naive
}

#[test]
fn the_cuts_reach_into_transactions() {
    let simulation = Platform::simulated(3);
    let environment = open(&simulation.platform).unwrap();
    let before = simulation.disk.operation_count(OperationFilter::Mutating);
    assert!(before < OPERATIONS_MAX, "opening alone takes {before} changes of the disk");
    let mut random = Random::new(3);
    let mut expected = Expected { acknowledged: Naive::default(), in_flight: None };
    for _ in 0..TRANSACTIONS_MAX {
        write_transaction(&simulation, &environment, &mut random, &mut expected).unwrap();
    }
    let after = simulation.disk.operation_count(OperationFilter::Mutating);
    assert!(OPERATIONS_MAX <= after, "a whole life takes only {after} changes of the disk");
}
