//! A few schedules of failing devices; `testing/soak` runs them for hours. `SIM_SEED` repeats one.

use sim::failing::{Plan, run};

#[test]
fn no_byte_is_wrong_while_devices_fail_and_repair_makes_all_whole() {
    let first = std::env::var("SIM_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = first.map_or(1..7, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(error) = run(&Plan { seed, rounds: 2, steps: 40 }) {
            panic!("{error:#}");
        }
    }
}
