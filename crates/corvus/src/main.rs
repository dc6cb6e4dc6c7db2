//! The binary: reads the settings, starts the server, and stops it on request.
//!
//! Standard output is for programs: version, help, settings and the line with the server's address.
//! Everything else goes to standard error. Exit codes: 0 ended normally, 1 could not start, 2 the
//! command line was not understood, 78 the configuration was refused.

#![forbid(unsafe_code)]

mod backup;
mod cluster;
mod console;
mod log_entries;
mod log_files;
mod logging;
mod offline;
mod offline_adopt;
mod offline_keys;
mod offline_refusal;
mod parent_process;
mod remote_server;
mod setup;
mod transfer;
mod transfer_options;
mod transfer_progress;

use std::{
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use platform::{
    Platform, secret_memory, separate_blocks::SeparateBlocks, wiping_allocator::WipingAllocator,
};
use server::AuditSink;
use settings::{Inputs, Loaded, SETTINGS_JSON_BYTES_MAX, Settings, Start, UnsecuredAccess};
use tokio::signal::unix::{SignalKind, signal};

use crate::{log_files::LogFiles, logging::Log};

/// Threads of the allocator's own choice scale with the writers; the system's allocator does not. Freed memory is
/// zeroed while an encrypted database is open; large blocks of it are returned at once where memory is scarce.
#[global_allocator]
static ALLOCATOR: WipingAllocator<SeparateBlocks<mimalloc::MiMalloc>> =
    WipingAllocator(SeparateBlocks(mimalloc::MiMalloc));

/// Could not start, for a reason that is not the configuration.
const EXIT_NOT_STARTED: u8 = 1;
/// So much more of a settings file is read than it may have, for its byte order mark and to know that it is
/// too long.
const READ_BEYOND_BYTES: u64 = 16;
/// The signal of a write beyond the limit of a file's length (`SIGXFSZ`), whose default is to end the process.
const FILE_TOO_LONG: i32 = 25;
/// The configuration was refused (`EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;

fn main() -> ExitCode {
    platform::process_memory::use_small_pages();
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    match (word(0), word(1)) {
        (Some("offline"), _) => return offline::run(&arguments[1..]),
        (Some("backup"), _) => return backup::run(&arguments[1..]),
        (Some("export"), _) => return transfer::export(&arguments[1..]),
        (Some("import"), _) => return transfer::import(&arguments[1..]),
        (Some("setup"), _) => return setup::run(&arguments[1..]),
        (Some("cluster"), _) => return cluster::run(&arguments[1..]),
        (Some("help"), Some("export")) => return transfer::export(&["--help".into()]),
        (Some("help"), Some("import")) => return transfer::import(&["--help".into()]),
        (Some("help"), Some("cluster")) => return cluster::run(&["--help".into()]),
        (Some("help"), Some("setup")) => return setup::run(&["--help".into()]),
        (Some("help"), Some("backup")) => return backup::run(&["--help".into()]),
        (Some("help"), Some("offline")) => return offline::run(&["--help".into()]),
        (Some("help"), _) => arguments = vec!["--help".into()],
        (Some("version"), _) => arguments = vec!["--version".into()],
        (Some("serve"), _) => drop(arguments.remove(0)),
        _ => {}
    }
    let inputs = Inputs {
        arguments,
        environment: std::env::vars_os().collect(),
        read_file: &read_settings_file,
    };
    match settings::load(inputs) {
        Ok(Start::Help) => print(&settings::command_line_help()),
        Ok(Start::Version) => print(&version_text()),
        Ok(Start::PrintConfig(loaded)) => {
            print(&settings::effective_text(loaded.settings.effective()))
        }
        Ok(Start::CheckConfig(_)) => print("The configuration is good.\n"),
        Ok(Start::Serve(loaded)) => serve(loaded),
        Err(refused) => {
            complain(&refused.to_string());
            ExitCode::from(refused.exit_code())
        }
    }
}

fn version_text() -> String {
    format!("corvus {}\n", env!("CARGO_PKG_VERSION"))
}

#[expect(clippy::disallowed_methods, reason = "settings are read before there is a platform")]
fn read_settings_file(path: &Path) -> io::Result<Vec<u8>> {
    // What is longer than settings may be is refused; what never ends is not read to its end.
    let mut bytes = Vec::new();
    let bytes_max = SETTINGS_JSON_BYTES_MAX as u64 + READ_BEYOND_BYTES;
    std::fs::File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A closed pipe (`corvus --help | head -1`) is not a failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    ExitCode::SUCCESS
}

fn complain(text: &str) {
    // Without standard error there is nowhere to report this.
    drop(writeln!(io::stderr(), "{text}"));
}

fn serve(loaded: Loaded) -> ExitCode {
    let platform = match loaded.settings.database.run_in_memory {
        true => Platform::memory(),
        false => Platform::real(),
    };
    let log = match Log::begin(&loaded.settings.logs, &platform) {
        Ok(log) => log,
        Err(error) => {
            let directory = loaded.settings.logs.directory.unwrap_or_default();
            complain(&format!(
                "corvus: the log files cannot be written in {}: {error}. Let the server write there, or \
                 set Logs.Path to another directory",
                directory.display()
            ));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let raised = platform::descriptors::raise_limit();
    if raised.before != raised.now {
        tracing::info!(before = raised.before, now = raised.now, "more files may be open");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(secret_memory::wipe_stack_after_work)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("corvus: cannot start threads: {error}"));
            return ExitCode::from(EXIT_NOT_STARTED);
        }
    };
    let exit = runtime.block_on(run(loaded.settings, platform, &log));
    // What may still run blocks on a client or on standard input, and neither may hold up the end.
    runtime.shutdown_background();
    exit
}

async fn run(settings: Settings, platform: Platform, log: &Log) -> ExitCode {
    let allowed = settings.unsecured_access_allowed;
    let is_secured = settings.security.certificate.is_some();
    let has_keys = settings.security.api_keys.is_some();
    let parents = settings.parent_process_ids.clone();
    let audit = match audit_log_of(&settings, &platform) {
        Ok(audit) => audit,
        Err(text) => {
            complain(&text);
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    let server = match server::start_audited(settings, platform, audit).await {
        Ok(server) => server,
        Err(error) => {
            complain(&format!("corvus: {error}"));
            let code = if error.is_configuration() { EXIT_CONFIG } else { EXIT_NOT_STARTED };
            return ExitCode::from(code);
        }
    };
    server.on_log_mode(log.mode_switch());
    server.show_log(log.feed());
    for url in server.urls() {
        print(&format!("Server available on: {url}\n"));
    }
    // The limit of a file's length, as the shell's ulimit sets it, is an error of the write, and not the end.
    let _file_size_limit = signal(SignalKind::from_raw(FILE_TOO_LONG));
    match (is_secured, has_keys) {
        (true, false) => tracing::info!("with certificates: clients need one that is registered"),
        (true, true) => {
            tracing::info!("clients need a certificate or an API key that is registered")
        }
        (false, true) => {
            tracing::info!("without certificates: clients need an API key that is registered")
        }
        (false, false) => log_access(allowed),
    }
    let reason = tokio::select! {
        reason = wait_for_the_end(&parents) => reason,
        () = server.stop_requested() => "a request of an administrator",
    };
    tracing::info!(reason, "stopping");
    server.stop().await;
    tracing::info!("stopped");
    ExitCode::SUCCESS
}

/// Without certificates no client is authenticated; every start logs what that means.
fn log_access(allowed: UnsecuredAccess) {
    if allowed <= UnsecuredAccess::Local {
        tracing::info!("without certificates: reachable from this machine only");
    } else {
        tracing::warn!(
            setting = allowed.name(),
            "without certificates, and allowed to listen beyond this machine: anyone who can reach the \
             server may read and change all data"
        );
    }
}

/// The files of the audit log, if the settings name a directory. Each entry is written before the response
/// is sent.
fn audit_log_of(settings: &Settings, platform: &Platform) -> Result<Option<AuditSink>, String> {
    let Some(audit) = &settings.security.audit_log else { return Ok(None) };
    let mut files = LogFiles::of_audit(audit, Arc::clone(&platform.clock)).map_err(|error| {
        format!(
            "corvus: the audit log cannot be written in {}: {error}. Let the server write there, or set \
             Security.AuditLog.FolderPath to another directory",
            audit.directory.display()
        )
    })?;
    Ok(Some(Box::new(move |entry| {
        // It accepts every entry, and reports in the next one that some were lost.
        drop(files.write_all(entry));
    })))
}

/// Waits for a request to stop the server, and returns its source.
async fn wait_for_the_end(parents: &[u32]) -> &'static str {
    let requested = console::shutdown_requested();
    let terminated = signaled(SignalKind::terminate());
    let interrupted = signaled(SignalKind::interrupt());
    tokio::select! {
        () = requested => "the console",
        () = terminal_closed() => "SIGHUP",
        () = terminated => "SIGTERM",
        () = interrupted => "SIGINT",
        () = parent_process::any_ended(parents) => "the end of the parent process",
    }
}

/// Waits until the terminal is closed; forever when the server was started to outlive it (`nohup`).
async fn terminal_closed() {
    if platform::own_signals::is_ignored(platform::own_signals::HANGUP) {
        std::future::pending::<()>().await;
    }
    signaled(SignalKind::hangup()).await;
}

/// Waits for a signal; forever when the system does not deliver it.
async fn signaled(kind: SignalKind) {
    match signal(kind) {
        Ok(mut arrivals) => {
            if arrivals.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        Err(error) => {
            tracing::warn!(%error, "a signal cannot be listened to");
            std::future::pending().await
        }
    }
}
