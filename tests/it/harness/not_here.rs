//! Reports tests that cannot run because the machine lacks something, such as the right to mount.

/// Prints that the test did not run, and why. In continuous integration (`CI=true`) this is a failure, because the
/// output of passing tests is not read.
#[track_caller]
pub fn not_run_here(what: &str, why: &str) {
    report(what, why, std::env::var("CI").is_ok_and(|value| value == "true"));
}

#[track_caller]
fn report(what: &str, why: &str, must_run: bool) {
    let message = format!("not run here: {what}: {why}");
    assert!(!must_run, "{message}");
    println!("{message}");
}

#[test]
#[should_panic(expected = "not run here: power_cuts: no mounts")]
fn a_test_that_cannot_run_fails_under_continuous_integration() {
    report("power_cuts", "no mounts", true);
}

#[test]
fn a_test_that_cannot_run_passes_elsewhere() {
    report("power_cuts", "no mounts", false);
}
