//! Randomly generated histories of batches.

use platform::{Platform, simulated::Random};
use testkit::{
    Naive,
    database::{content, execute, open},
    histories::random_batch,
};

#[test]
fn the_database_does_what_the_naive_one_does() {
    for seed in 0..30 {
        let simulation = Platform::simulated(seed);
        let mut random = Random::new(seed);
        let mut naive = Naive::default();
        let environment = open(&simulation.platform).unwrap();
        for step in 0..25 {
            let mut tx = environment.write().unwrap();
            for _ in 0..1 + random.below(3) {
                let batch = random_batch(&mut random, &naive);
                let real = execute(&mut tx, &simulation.platform, &batch);
                let expected = naive.apply(&batch);
                assert_eq!(real.is_ok(), expected.is_ok(), "seed {seed} step {step}: {real:?}");
            }
            tx.commit().unwrap();
            if random.below(6) == 0 {
                environment.flush().unwrap();
            }
            if step % 5 == 4 {
                assert_eq!(content(&environment), naive.content(), "seed {seed} step {step}");
            }
        }
        drop(environment);
        let environment = open(&simulation.platform).unwrap();
        assert_eq!(content(&environment), naive.content(), "seed {seed}, opened again");
    }
}
