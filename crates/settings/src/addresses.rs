//! The rules that relate the addresses to listen on to the security settings.
//!
//! Not here: names other than `localhost`, which only the listener can resolve and check.
//! Invariant: a server without certificates is never started on an address wider than allowed, and one that identifies
//! clients by API keys never where these are sent in the clear.

use crate::problem::{AddressProblem, Problem, Warning};
use crate::settings::Settings;
use crate::url::{Host, Scheme, ServerUrl};
use crate::value::{UnsecuredAccess, access_needed_for};

/// Reports addresses that contradict each other or the security settings.
pub(crate) fn check_addresses(
    settings: &Settings,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) {
    let urls: Vec<&ServerUrl> = settings.server_urls.iter().chain(&settings.tcp_urls).collect();
    if 1 < settings.server_urls.len() && settings.public_server_url.is_none() {
        problems.push(Problem::Address(AddressProblem::PublicUrlNeeded));
    }
    for (index, url) in urls.iter().enumerate() {
        let same = |other: &&ServerUrl| other.host == url.host && other.port == url.port;
        if url.port != 0 && urls[..index].iter().any(same) {
            problems.push(Problem::Address(AddressProblem::SameAddress { url: (*url).clone() }));
        }
    }
    let is_secured = settings.security.certificate.is_some();
    for url in &settings.server_urls {
        let problem = match (url.scheme, is_secured) {
            (Scheme::Https, false) => AddressProblem::CertificateMissing { url: url.clone() },
            (Scheme::Http, true) => AddressProblem::NotEncrypted { url: url.clone() },
            _ => continue,
        };
        problems.push(Problem::Address(problem));
    }
    let public = settings.public_server_url.as_ref();
    if let Some(url) = public.filter(|url| is_secured && url.scheme == Scheme::Http) {
        problems.push(Problem::Address(AddressProblem::NotEncrypted { url: url.clone() }));
    }
    if settings.security.needs_certificate {
        problems.push(Problem::Address(AddressProblem::NothingToProtect));
    }
    let contradictions = settings.security.contradictions.iter();
    problems.extend(contradictions.map(|one| Problem::Contradiction(*one)));
    check_api_keys(settings, problems);
    if is_secured {
        // Every client needs a certificate, wherever it is.
        return;
    }
    let mut judged: Vec<&Host> = Vec::new();
    for url in urls {
        if !judged.contains(&&url.host) {
            judged.push(&url.host);
            judge_host(url, settings, problems, warnings);
        }
    }
}

fn check_api_keys(settings: &Settings, problems: &mut Vec<Problem>) {
    let security = &settings.security;
    let is_secured = security.certificate.is_some();
    if is_secured && security.tls_ends_elsewhere {
        problems.push(Problem::Address(AddressProblem::TlsEndsHere));
    }
    let problem = match &security.api_keys {
        None if security.needs_api_keys => AddressProblem::ApiKeysDisabled,
        Some(keys) if keys.admins.is_empty() && !is_secured => AddressProblem::NoAdministrator,
        _ => return,
    };
    problems.push(Problem::Address(problem));
}

fn judge_host(
    url: &ServerUrl,
    settings: &Settings,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) {
    let Some(needed) = access_needed_for(&url.host) else { return };
    let url = url.clone();
    let allowed = settings.access_without_certificate();
    if settings.security.api_keys.is_some() {
        if allowed < needed {
            problems.push(Problem::Address(AddressProblem::KeysInTheClear { url }));
        }
    } else if allowed < needed {
        let problem = AddressProblem::UnsecuredAddress { url, allowed, needed };
        problems.push(Problem::Address(problem));
    } else if needed == UnsecuredAccess::PublicNetwork {
        warnings.push(Warning::PublicWithoutCertificate { url });
    }
}
