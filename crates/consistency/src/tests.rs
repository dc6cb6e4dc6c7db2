//! Planted anomalies of each kind, and random histories against a search through all orders.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use crate::{
    Anomaly, Exchange, ExchangeKind, Finding, NEVER, Outcome, Seen, Step, Transaction,
    check_exchanges, check_lists, check_registers,
};

fn a(key: u64, value: u64) -> Step {
    Step::Append { key, value }
}

fn l(key: u64, values: &[u64]) -> Step {
    Step::List { key, values: values.to_vec() }
}

fn w(key: u64, value: u64) -> Step {
    Step::Write { key, value }
}

fn v(key: u64, value: u64) -> Step {
    Step::Value { key, value }
}

/// A transaction concurrent with all others of the history, in a separate process.
fn concurrent(steps: Vec<Step>) -> Transaction {
    Transaction { process: 0, began: 0, ended: 100, outcome: Outcome::Committed, steps }
}

fn with(outcome: Outcome, steps: Vec<Step>) -> Transaction {
    Transaction { outcome, ..concurrent(steps) }
}

/// Assigns a process to each transaction that has none.
fn apart(history: Vec<Transaction>) -> Vec<Transaction> {
    let of = |(place, transaction): (usize, Transaction)| Transaction {
        process: place as u32 + 1,
        ..transaction
    };
    history.into_iter().enumerate().map(of).collect()
}

fn names(findings: &[Finding]) -> Vec<Anomaly> {
    let names: BTreeSet<_> = findings.iter().map(|finding| finding.anomaly).collect();
    names.into_iter().collect()
}

fn check_both(
    history: Vec<Transaction>,
    expected: &[Anomaly],
    check: fn(&[Transaction]) -> Vec<Finding>,
) {
    let history = apart(history);
    let findings = check(&history);
    assert_eq!(names(&findings), expected, "{history:#?}\n{findings:#?}");
}

#[track_caller]
fn lists(history: Vec<Transaction>, expected: &[Anomaly]) {
    check_both(history, expected, check_lists);
}

#[track_caller]
fn registers(history: Vec<Transaction>, expected: &[Anomaly]) {
    check_both(history, expected, check_registers);
}

#[test]
fn sound_histories_show_nothing() {
    lists(vec![], &[]);
    lists(
        vec![
            concurrent(vec![a(1, 1), a(2, 1)]),
            concurrent(vec![l(1, &[1]), a(1, 2), l(1, &[1, 2])]),
            concurrent(vec![l(1, &[1, 2]), l(2, &[1])]),
            with(Outcome::Failed, vec![l(1, &[9, 9]), a(1, 3)]),
            with(Outcome::Unknown, vec![a(1, 4)]),
            concurrent(vec![l(1, &[1, 2, 4])]),
        ],
        &[],
    );
    registers(
        vec![
            concurrent(vec![v(1, 0), w(1, 1), w(2, 1)]),
            concurrent(vec![v(1, 1), w(1, 2)]),
            concurrent(vec![v(1, 2), v(2, 1)]),
            with(Outcome::Unknown, vec![v(1, 2), w(1, 3)]),
            concurrent(vec![v(1, 3)]),
        ],
        &[],
    );
}

#[test]
fn writes_in_opposite_orders_are_g0() {
    lists(
        vec![
            concurrent(vec![a(1, 1), a(2, 1)]),
            concurrent(vec![a(1, 2), a(2, 2)]),
            concurrent(vec![l(1, &[1, 2])]),
            concurrent(vec![l(2, &[2, 1])]),
        ],
        &[Anomaly::G0],
    );
}

#[test]
fn values_of_refused_transactions_are_g1a() {
    let refused = with(Outcome::Failed, vec![a(1, 1)]);
    lists(vec![refused, concurrent(vec![l(1, &[1])])], &[Anomaly::G1a]);
    let refused = with(Outcome::Failed, vec![w(1, 1)]);
    registers(vec![refused, concurrent(vec![v(1, 1)])], &[Anomaly::G1a]);
}

#[test]
fn values_in_the_midst_of_a_transaction_are_g1b() {
    lists(vec![concurrent(vec![a(1, 1), a(1, 2)]), concurrent(vec![l(1, &[1])])], &[Anomaly::G1b]);
    registers(vec![concurrent(vec![w(1, 1), w(1, 2)]), concurrent(vec![v(1, 1)])], &[Anomaly::G1b]);
}

#[test]
fn information_in_a_circle_is_g1c() {
    lists(
        vec![concurrent(vec![a(1, 1), l(2, &[1])]), concurrent(vec![a(2, 1), l(1, &[1])])],
        &[Anomaly::G1c],
    );
    registers(
        vec![concurrent(vec![w(1, 1), v(2, 1)]), concurrent(vec![w(2, 1), v(1, 1)])],
        &[Anomaly::G1c],
    );
}

#[test]
fn half_of_a_transaction_is_a_fractured_read_and_g_single() {
    let expected = [Anomaly::GSingle, Anomaly::FracturedRead];
    lists(
        vec![concurrent(vec![a(1, 1), a(2, 1)]), concurrent(vec![l(1, &[1]), l(2, &[])])],
        &expected,
    );
    registers(
        vec![concurrent(vec![w(1, 1), w(2, 1)]), concurrent(vec![v(1, 1), v(2, 0)])],
        &expected,
    );
}

#[test]
fn skew_over_two_transactions_is_g_single_and_not_fractured() {
    lists(
        vec![
            concurrent(vec![a(1, 1)]),
            concurrent(vec![l(1, &[1]), a(2, 1)]),
            concurrent(vec![l(2, &[1]), l(1, &[])]),
        ],
        &[Anomaly::GSingle],
    );
}

#[test]
fn write_skew_is_g2() {
    lists(
        vec![concurrent(vec![l(1, &[]), a(2, 1)]), concurrent(vec![l(2, &[]), a(1, 1)])],
        &[Anomaly::G2],
    );
    registers(
        vec![concurrent(vec![v(1, 0), w(2, 1)]), concurrent(vec![v(2, 0), w(1, 1)])],
        &[Anomaly::G2],
    );
}

#[test]
fn two_transactions_that_replace_what_both_have_read_lose_an_update() {
    let history = vec![
        concurrent(vec![v(1, 0), w(1, 1)]),
        concurrent(vec![v(1, 1), w(1, 2)]),
        concurrent(vec![v(1, 1), w(1, 3)]),
    ];
    let findings = check_registers(&apart(history));
    assert!(names(&findings).contains(&Anomaly::LostUpdate), "{findings:?}");
    let history = vec![
        concurrent(vec![l(1, &[]), a(1, 1)]),
        concurrent(vec![l(1, &[]), a(1, 2)]),
        concurrent(vec![l(1, &[2])]),
    ];
    let findings = check_lists(&apart(history));
    assert!(names(&findings).contains(&Anomaly::LostUpdate), "{findings:?}");
}

#[test]
fn a_lost_acknowledged_write_is_found_by_real_time() {
    let first = Transaction { ended: 10, ..concurrent(vec![a(1, 1)]) };
    let later = Transaction { began: 20, ..concurrent(vec![l(1, &[])]) };
    lists(vec![first.clone(), later.clone()], &[Anomaly::Realtime("G-single")]);
    lists(vec![first.clone(), Transaction { began: 10, ..later.clone() }], &[]);
    lists(vec![Transaction { outcome: Outcome::Unknown, ended: NEVER, ..first }, later], &[]);
}

#[test]
fn a_process_that_goes_back_in_time_is_found() {
    let at = |process, began, steps| Transaction {
        process,
        began,
        ended: began + 50,
        ..concurrent(steps)
    };
    let history =
        [at(1, 0, vec![a(1, 1)]), at(2, 10, vec![l(1, &[1])]), at(2, 30, vec![l(1, &[])])];
    assert_eq!(names(&check_lists(&history)), [Anomaly::Realtime("G-single")]);
}

#[test]
fn reads_that_contradict_themselves_and_each_other_are_found() {
    let one = || concurrent(vec![a(1, 1)]);
    let findings = check_lists(&apart(vec![one(), concurrent(vec![l(1, &[1]), l(1, &[])])]));
    assert!(names(&findings).contains(&Anomaly::Internal), "{findings:?}");
    lists(vec![concurrent(vec![a(1, 1), l(1, &[])])], &[Anomaly::Internal]);
    registers(vec![concurrent(vec![w(1, 1), v(1, 0)])], &[Anomaly::Internal]);
    lists(vec![concurrent(vec![l(1, &[7])])], &[Anomaly::Garbage]);
    registers(vec![concurrent(vec![v(1, 7)])], &[Anomaly::Garbage]);
    let findings = check_lists(&apart(vec![one(), concurrent(vec![l(1, &[1, 1])])]));
    assert!(names(&findings).contains(&Anomaly::Duplicate), "{findings:?}");
    let two = concurrent(vec![a(1, 2)]);
    let history = vec![one(), two, concurrent(vec![l(1, &[1])]), concurrent(vec![l(1, &[2])])];
    let findings = check_lists(&apart(history));
    assert!(names(&findings).contains(&Anomaly::IncompatibleOrder), "{findings:?}");
    let circle = vec![concurrent(vec![v(1, 2), w(1, 1)]), concurrent(vec![v(1, 1), w(1, 2)])];
    let findings = check_registers(&apart(circle));
    assert!(names(&findings).contains(&Anomaly::CyclicVersions), "{findings:?}");
}

/// Whether some order of the transactions explains every read, and agrees with time and processes.
fn has_serial_order(history: &[Transaction]) -> bool {
    fn go(history: &[Transaction], done: &mut Vec<usize>, lists: &HashMap<u64, Vec<u64>>) -> bool {
        if done.len() == history.len() {
            return true;
        }
        (0..history.len()).any(|next| {
            let must_wait = |other: usize| {
                !done.contains(&other)
                    && other != next
                    && (history[other].ended < history[next].began
                        || (history[other].process == history[next].process
                            && history[other].began < history[next].began))
            };
            if done.contains(&next) || (0..history.len()).any(must_wait) {
                return false;
            }
            let mut lists = lists.clone();
            let explained = history[next].steps.iter().all(|step| match step {
                Step::Append { key, value } => {
                    lists.entry(*key).or_default().push(*value);
                    true
                }
                Step::List { key, values } => lists.get(key).map_or(&[][..], |list| list) == values,
                Step::Write { .. } | Step::Value { .. } => false,
            });
            done.push(next);
            let found = explained && go(history, done, &lists);
            done.pop();
            found
        })
    }
    go(history, &mut Vec::new(), &HashMap::new())
}

/// The steps of a transaction, as keys and whether they are written, and its time before and after.
type Dice = (Vec<(u64, bool)>, u64, u64);

/// Histories of a store that runs the transactions serially, each at a moment between its start and
/// its end, and occasionally misbehaves.
fn small_histories() -> impl Strategy<Value = (Vec<Transaction>, bool)> {
    let step = (0u64..3, any::<bool>());
    let transaction = (prop::collection::vec(step, 1..4), 0u64..4, 0u64..4);
    (prop::collection::vec(transaction, 1..6), prop::option::weighted(0.6, 0usize..8)).prop_map(
        |(transactions, fault)| {
            let mut lists: HashMap<u64, Vec<u64>> = HashMap::new();
            let (mut reads, mut next, mut is_sound) = (0, 0, true);
            let run = |(place, (steps, before, after)): (usize, Dice)| {
                let mut done = Vec::new();
                for (key, is_append) in steps {
                    let list = lists.entry(key).or_default();
                    if is_append {
                        next += 1;
                        list.push(next);
                        done.push(a(key, next));
                        continue;
                    }
                    let mut seen = list.clone();
                    if fault == Some(reads) && seen.pop().is_some() {
                        is_sound = false;
                    }
                    reads += 1;
                    done.push(Step::List { key, values: seen });
                }
                let at = 10 * place as u64 + 100;
                Transaction {
                    process: place as u32,
                    began: at - 10 * before,
                    ended: at + 10 * after + 5,
                    outcome: Outcome::Committed,
                    steps: done,
                }
            };
            let history: Vec<_> = transactions.into_iter().enumerate().map(run).collect();
            (history, is_sound)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_found_is_what_no_order_explains((history, is_sound) in small_histories()) {
        let findings = check_lists(&history);
        let is_explained = has_serial_order(&history);
        prop_assert!(is_explained || !is_sound);
        prop_assert_eq!(findings.is_empty(), is_explained, "{:?}", findings);
    }

    #[test]
    fn calls_of_compare_exchange_are_judged_like_by_a_search(history in small_exchanges()) {
        let findings = check_exchanges(&history);
        prop_assert_eq!(findings.is_empty(), has_linear_order(&history), "{:?}", findings);
    }
}

/// Whether some order of the calls explains every answer and agrees with time, with growing indexes.
fn has_linear_order(history: &[Exchange]) -> bool {
    fn go(history: &[Exchange], done: &mut Vec<usize>, state: Seen) -> bool {
        if done.len() == history.len() {
            return true;
        }
        (0..history.len()).any(|next| {
            let call = &history[next];
            let must_wait =
                |other: usize| !done.contains(&other) && history[other].ended < call.began;
            if done.contains(&next) || (0..history.len()).any(must_wait) {
                return false;
            }
            let after = match (call.kind, call.outcome) {
                (ExchangeKind::Put { expected, value }, Outcome::Committed) => {
                    let fits = (state.index == 0 || expected == state.index)
                        && state.index < call.seen.index
                        && call.seen.value == value;
                    fits.then_some(call.seen)
                }
                (ExchangeKind::Get | ExchangeKind::Put { .. }, _) => {
                    (call.seen == state).then_some(state)
                }
            };
            done.push(next);
            let found = after.is_some_and(|after| go(history, done, after));
            done.pop();
            found
        })
    }
    go(history, &mut Vec::new(), Seen { index: 0, value: 0 })
}

fn small_exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let call =
        (any::<bool>(), any::<bool>(), 0u64..4, 0u64..4, prop::option::weighted(0.08, 0u64..4));
    prop::collection::vec(call, 1..7).prop_map(|calls| {
        let mut state = Seen { index: 0, value: 0 };
        let mut states = vec![state];
        let run = |(place, (is_put, is_right, before, after, fault))| {
            let place: usize = place;
            let at = 10 * place as u64 + 100;
            let mut call = Exchange {
                key: 1,
                kind: ExchangeKind::Get,
                began: at - 10 * before,
                ended: at + 10 * after + 5,
                outcome: Outcome::Committed,
                seen: state,
            };
            if is_put {
                let value = place as u64 + 1;
                let expected = if is_right { state.index } else { state.index + 1 };
                call.kind = ExchangeKind::Put { expected, value };
                if is_right || state.index == 0 {
                    state = Seen { index: 2 * value, value };
                    states.push(state);
                    call.seen = state;
                } else {
                    call.outcome = Outcome::Failed;
                }
            }
            if let Some(fault) = fault
                && (!is_put || call.outcome == Outcome::Failed)
            {
                call.seen = states[fault as usize % states.len()];
            }
            call
        };
        calls.into_iter().enumerate().map(run).collect()
    })
}

#[test]
fn planted_answers_of_compare_exchange_are_found() {
    let put = |expected, value, index, began, ended| Exchange {
        key: 1,
        kind: ExchangeKind::Put { expected, value },
        began,
        ended,
        outcome: Outcome::Committed,
        seen: Seen { index, value },
    };
    let get = |index, value, began, ended| Exchange {
        kind: ExchangeKind::Get,
        seen: Seen { index, value },
        ..put(0, 0, 0, began, ended)
    };
    let failed = |expected, index, value, began, ended| Exchange {
        outcome: Outcome::Failed,
        seen: Seen { index, value },
        ..put(expected, 99, 0, began, ended)
    };
    let unknown = |expected, value, began| Exchange {
        outcome: Outcome::Unknown,
        ended: NEVER,
        ..put(expected, value, 0, began, 0)
    };
    let first = put(0, 1, 5, 0, 10);
    for (history, is_sound) in [
        (vec![first, put(5, 2, 7, 11, 20), get(7, 2, 21, 22), failed(5, 7, 2, 23, 24)], true),
        (vec![first, get(0, 0, 5, 6)], true),
        (vec![first, unknown(5, 2, 11), get(7, 2, 12, 13)], true),
        (vec![first, unknown(5, 2, 11), get(5, 1, 12, 13)], true),
        // It saw no value after the write had been acknowledged.
        (vec![first, get(0, 0, 11, 12)], false),
        // Both replaced index 5.
        (vec![first, put(5, 2, 7, 11, 20), put(5, 3, 8, 11, 20)], false),
        // It saw the value before it was written.
        (vec![get(5, 1, 0, 1), put(0, 1, 5, 2, 3)], false),
        // A value went back.
        (vec![first, put(5, 2, 7, 11, 20), get(7, 2, 12, 13), get(5, 1, 14, 15)], false),
        // It was never written, or a different value has that index.
        (vec![first, get(6, 9, 11, 12)], false),
        (vec![first, get(5, 9, 11, 12)], false),
        // It was refused although its index was there.
        (vec![first, put(5, 2, 5, 11, 12)], false),
    ] {
        let findings = check_exchanges(&history);
        assert_eq!(findings.is_empty(), is_sound, "{history:#?} {findings:?}");
    }
}
