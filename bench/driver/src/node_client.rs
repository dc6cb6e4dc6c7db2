//! A bulk insert by the official Node.js client: a separate program, which prints how long it took.

use std::{net::SocketAddr, path::Path, time::Duration};

use tokio::process::Command;

use crate::{
    error::DriverError,
    load::Stopwatch,
    outcome::{Outcome, no_latencies},
    process::Process,
};

/// Inserts this many small documents. The client's processor time is reported as the driver's.
pub(crate) async fn bulk_insert(
    program: &Path,
    address: SocketAddr,
    server: Process,
    database: &str,
    documents: u64,
) -> Result<Outcome, DriverError> {
    let stopwatch = Stopwatch::start(server)?;
    let mut command = Command::new("node");
    command.arg(program).arg(format!("http://{address}")).arg(database);
    let output = command.arg(documents.to_string()).kill_on_drop(true).output().await?;
    let outcome = stopwatch.stop(documents, no_latencies())?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let [elapsed, driver_time] = times_in(&printed).ok_or_else(|| DriverError::ClientFailed {
        printed: printed.into_owned() + &String::from_utf8_lossy(&output.stderr),
    })?;
    Ok(Outcome { elapsed, driver_time, ..outcome })
}

/// The output of the program when all documents are stored.
fn times_in(printed: &str) -> Option<[Duration; 2]> {
    let value: serde_json::Value = serde_json::from_str(printed).ok()?;
    let time = |name: &str| Duration::try_from_secs_f64(value[name].as_f64()?).ok();
    Some([time("seconds")?, time("cpuSeconds")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_both_times_are_a_success() {
        let times = [Duration::from_millis(1_500), Duration::from_millis(700)];
        assert_eq!(times_in("{\"seconds\":1.5,\"cpuSeconds\":0.7}\n"), Some(times));
        for printed in
            ["", "TypeError: x", "{\"seconds\":1.5}", "{\"seconds\":-1,\"cpuSeconds\":1}"]
        {
            assert_eq!(times_in(printed), None, "{printed}");
        }
    }
}
