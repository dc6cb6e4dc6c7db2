//! Power cuts while commands are in flight, checked against a simple model.
//!
//! One caller submits commands without waiting, so they are applied in that order. After the cut the state
//! must be that of the model after some number of commands: at least those that were acknowledged, and with
//! exactly that many indexes taken, so that none was applied twice.

use std::collections::BTreeMap;

use cluster::Cluster;
use cluster_state::{Command, CompareExchangeCommand, Outcome};
use platform::{
    Platform,
    simulated::{Random, Survival},
};

use crate::{Home, delete, put};

const SEEDS: u64 = 24;
const CUTS: usize = 5;
const COMMANDS: usize = 60;
const OPERATIONS_MAX: u64 = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    last_index: u64,
    values: BTreeMap<String, (u64, u64)>,
}

impl Model {
    fn random_command(&self, random: &mut Random) -> CompareExchangeCommand {
        let key = format!("k{}", random.below(6));
        let present = self.values.get(&key).map_or(0, |(index, _)| *index);
        let expected = if random.below(4) == 0 { random.below(20) } else { present };
        match random.below(4) {
            0 => delete(&key, expected),
            _ => put(&key, expected, &format!(r#"{{"Object":{}}}"#, random.below(1000))),
        }
    }

    /// Whether the command is successful.
    fn apply(&mut self, command: &CompareExchangeCommand) -> bool {
        self.last_index += 1;
        let (key, expected) = match command {
            CompareExchangeCommand::Put { key, expected, .. }
            | CompareExchangeCommand::Delete { key, expected, .. } => (key, *expected),
            CompareExchangeCommand::RemoveExpired { .. }
            | CompareExchangeCommand::ForgetDeleted { .. } => return true,
        };
        if self.values.get(key).is_some_and(|(index, _)| *index != expected) {
            return false;
        }
        match command {
            CompareExchangeCommand::Put { value, .. } => {
                let number = value.as_view().root().get_i64("Object").unwrap().unwrap();
                self.values.insert(key.clone(), (self.last_index, number as u64));
            }
            _ => drop(self.values.remove(key)),
        }
        true
    }

    fn stored(cluster: &Cluster) -> Model {
        let state = cluster.store().read();
        let mut model = Model { last_index: state.last_index().unwrap(), ..Model::default() };
        for entry in state.compare_exchange_with_prefix(crate::DATABASE, "", None).unwrap() {
            let entry = entry.unwrap();
            let number = entry.value.root().get_i64("Object").unwrap().unwrap();
            model.values.insert(entry.key, (entry.index, number as u64));
        }
        model
    }
}

/// The states that may be found after the cut, starting with that of the last acknowledged command.
fn submit_until_the_cut(
    home: &Home,
    random: &mut Random,
    mut model: Model,
    runtime: &tokio::runtime::Runtime,
) -> Vec<Model> {
    let mut states = vec![model.clone()];
    let mut submissions = Vec::new();
    for _ in 0..COMMANDS {
        let command = model.random_command(random);
        let expected = model.apply(&command);
        states.push(model.clone());
        match home.cluster.submit(&Command::CompareExchange(command), None) {
            Ok(submission) => submissions.push((submission, expected)),
            Err(_) => break,
        }
        if random.below(8) == 0 {
            // Lets the machine take the queued commands, so that entries have different lengths.
            std::thread::yield_now();
        }
    }
    let mut acknowledged = 0;
    for (number, (submission, expected)) in submissions.into_iter().enumerate() {
        if let Ok(applied) = runtime.block_on(submission) {
            let Outcome::CompareExchange(outcome) = applied.outcome else { panic!() };
            assert_eq!(outcome.is_successful, expected);
            assert_eq!(applied.index, states[number + 1].last_index);
            acknowledged = number + 1;
        }
    }
    states.split_off(acknowledged)
}

#[test]
fn no_acknowledged_command_is_lost_and_none_is_applied_twice() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut kept_in_flight = 0;
    for seed in 0..SEEDS {
        let simulation = Platform::simulated(seed);
        let mut random = Random::new(seed);
        let mut model = Model::default();
        for cut in 0..CUTS {
            let home = Home::open(&simulation.platform);
            let found = Model::stored(&home.cluster);
            assert_eq!(found, model, "seed {seed}, cut {cut}: opening changes nothing");
            let nth = 1 + random.below(OPERATIONS_MAX);
            simulation.disk.cut_power_at_operation(nth, Survival::Random);
            let states = submit_until_the_cut(&home, &mut random, model, &runtime);
            home.cluster.close();
            drop(home.environment.close());
            simulation.disk.restart().unwrap();
            let home = Home::open(&simulation.platform);
            let found = Model::stored(&home.cluster);
            let reached = states.iter().position(|state| *state == found);
            let Some(reached) = reached else {
                panic!("seed {seed}, cut {cut}: {found:?} is none of {states:?}");
            };
            kept_in_flight += usize::from(reached > 0);
            home.close();
            model = found;
        }
    }
    assert!(kept_in_flight > 0, "no cut ever fell between the log and the answer");
}
