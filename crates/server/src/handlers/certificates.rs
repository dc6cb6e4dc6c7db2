//! The certificates of clients: who one is, and registering, changing and removing them.
//!
//! An administrator may not grant, change or revoke more than they hold themselves.

use std::{
    io::{Cursor, Write},
    sync::Arc,
    thread,
};

use http::StatusCode;
use model::base64_bytes;
use platform::thread_priority;
use security::{
    Authority, Caller, Certificate, ClientRequest, KeyAlgorithm, KeyPair, KeyStanding,
    RegisteredCertificate, Requirement, Standing,
};
use serde_json::{Value, json};
use wire::ErrorKind;
use zeroize::Zeroizing;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{
        api_keys,
        granted_access::{GrantedAccess, date_of},
    },
    http::router::Answering,
    request_json::read_object,
    tls::ServerTls,
};

/// How errors name what is registered here.
const KIND: &str = "certificate";

/// `GET /certificates/whoami`: what the client is registered as; where nobody is identified, nothing.
pub(crate) fn who_am_i(call: &Call) -> Result<Answer, ApiError> {
    match &call.caller {
        Caller::Certified(_, Standing::Registered(registered)) => {
            Ok(Answer::shape(StatusCode::OK, &**registered))
        }
        Caller::Keyed(KeyStanding::Registered(registered)) => {
            Ok(Answer::shape(StatusCode::OK, &api_keys::shown(registered)))
        }
        Caller::Unsecured => Ok(Answer::empty(StatusCode::NO_CONTENT)),
        other => Err(other.check(Requirement::ValidUser, None).map_or_else(ApiError::from, |()| {
            ApiError::new(ErrorKind::Internal, "a client without a registration was let in")
        })),
    }
}

/// `GET /admin/certificates`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let engine = &call.state.engine;
    let query = call.query();
    let own = engine.server_certificate();
    let loaded = own.as_ref().map(|own| own.thumbprint.clone());
    let mut entries: Vec<_> = own.into_iter().chain(engine.registered_certificates()?).collect();
    if let Some(thumbprint) = query.get("thumbprint").filter(|text| !text.is_empty()) {
        let thumbprint = normal(thumbprint);
        entries.retain(|entry| entry.thumbprint == thumbprint);
        if entries.is_empty() {
            return Ok(Answer::empty(StatusCode::NOT_FOUND));
        }
    }
    if let Some(name) = query.get("name").filter(|text| !text.is_empty()) {
        entries.retain(|entry| entry.name == name);
    }
    let skip = usize::try_from(query.start()?).unwrap_or(0);
    let take = usize::try_from(query.page_size()?).unwrap_or(0);
    let is_short = query.bool("metadataOnly")?.unwrap_or(false);
    let shown = entries.iter().skip(skip).take(take).map(|entry| shown(entry, is_short));
    let admins = &engine.settings().security.admin_thumbprints;
    let answer = json!({
        "Results": shown.collect::<Vec<_>>(),
        "LoadedServerCert": loaded,
        "WellKnownAdminCerts": (!admins.is_empty()).then_some(admins),
        "WellKnownIssuers": [],
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn shown(entry: &RegisteredCertificate, is_short: bool) -> Value {
    let mut shown = json!(entry);
    if is_short && let Some(properties) = shown.as_object_mut() {
        properties.shift_remove("Certificate");
    }
    shown
}

/// `PUT /admin/certificates`: registers a certificate that a client has.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        secured(&call)?;
        let sent = read_object(&call.body)?;
        let asked = GrantedAccess::read(&sent, KIND)?;
        let Some(Value::String(text)) = sent.get("Certificate") else {
            let message = "Certificate is a mandatory property when saving an existing certificate";
            return Err(ApiError::argument(message));
        };
        let text = text.clone();
        let password = sent.get("Password").and_then(Value::as_str).unwrap_or_default().to_owned();
        asked.check_not_above(&call, ("save", KIND))?;
        blocking(move || {
            let certificate = uploaded(&text, &password)?;
            change(&call, certificate.thumbprint(), |_| Ok(Some(entry_of(&asked, &certificate))))?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `POST /admin/certificates`: makes a certificate, registers it, and returns it with its key.
pub(crate) fn generate(call: Call) -> Answering {
    Box::pin(async move {
        let tls = secured(&call)?;
        let sent = read_object(&call.body)?;
        let asked = GrantedAccess::read(&sent, KIND)?;
        asked.check_not_above(&call, ("generate", KIND))?;
        let password = sent.get("Password").and_then(Value::as_str).unwrap_or_default().to_owned();
        let not_after = match sent.get("NotAfter") {
            None | Some(Value::Null) => None,
            Some(text) => Some(date_of(text)?),
        };
        let key = match sent.get("KeyAlgorithm").and_then(Value::as_str) {
            None | Some("Ecdsa") => KeyAlgorithm::Ecdsa,
            Some("Rsa") => KeyAlgorithm::Rsa,
            Some(other) => {
                let message = format!("KeyAlgorithm is Ecdsa or Rsa, and not '{other}'");
                return Err(ApiError::argument(message));
            }
        };
        if not_after.is_some_and(|end| end < call.state.engine.clock().now().ticks()) {
            return Err(ApiError::argument("NotAfter is in the past"));
        }
        blocking(move || {
            let request = ClientRequest { name: asked.name.clone(), not_after, key };
            let authority = Authority::from_key_pair(tls.key_pair());
            let now = call.state.engine.clock().now().ticks();
            let made = match key {
                KeyAlgorithm::Ecdsa => authority.issue_client(&request, now),
                // It takes long on a small machine, and the others have work to do.
                KeyAlgorithm::Rsa => stepping_back(|| authority.issue_client(&request, now))?,
            };
            let made = made.map_err(|error| ApiError::invalid_operation(error.to_string()))?;
            let archive = archive_of(&made, &asked.name, &password)?;
            let thumbprint = made.certificate().thumbprint();
            change(&call, thumbprint, |_| Ok(Some(entry_of(&asked, made.certificate()))))?;
            let file_name = file_name_of(&asked.name);
            let answer = Answer::json(archive).with_content_type("application/octet-stream");
            let disposition = format!("attachment; filename={file_name}.zip");
            Ok(answer.with_header("content-disposition", &disposition))
        })
        .await
    })
}

/// `POST /admin/certificates/edit`: changes the name and what is allowed.
pub(crate) fn edit(call: Call) -> Answering {
    Box::pin(async move {
        secured(&call)?;
        let sent = read_object(&call.body)?;
        let asked = GrantedAccess::read(&sent, KIND)?;
        let thumbprint = sent.get("Thumbprint").and_then(Value::as_str).unwrap_or_default();
        let thumbprint = normal(thumbprint);
        asked.check_not_above(&call, ("edit", KIND))?;
        blocking(move || {
            let GrantedAccess { name, clearance, permissions } = asked;
            change(&call, &thumbprint, |entry| match entry {
                Some(entry) => Ok(Some(RegisteredCertificate {
                    name,
                    security_clearance: clearance,
                    permissions,
                    ..entry
                })),
                None => Err(ApiError::invalid_operation(format!(
                    "Cannot edit permissions for certificate with thumbprint '{thumbprint}'. It doesn't exist \
                     in the cluster."
                ))),
            })?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `DELETE /admin/certificates`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        secured(&call)?;
        let thumbprint = normal(call.query().single_non_empty("thumbprint")?);
        let own = call.caller.certificate();
        let is_own = own.is_some_and(|certificate| certificate.thumbprint() == thumbprint);
        if is_own {
            return Err(ApiError::invalid_operation(format!(
                "Cannot delete {thumbprint} because it's the current client certificate being used"
            )));
        }
        blocking(move || {
            change(&call, &thumbprint, |_| Ok(None))?;
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

/// `POST /admin/certificates/refresh`: looks for a newer certificate of the server at once.
pub(crate) fn refresh(call: Call) -> Answering {
    Box::pin(async move {
        let tls = secured(&call)?;
        blocking(move || {
            call.state.reload_certificate(&tls)?;
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

/// `POST /admin/certificates/replace-cluster-cert`: replaces the certificate of the server, which needs its key.
pub(crate) fn replace_server(call: Call) -> Answering {
    Box::pin(async move {
        let tls = secured(&call)?;
        let sent = read_object(&call.body)?;
        let Some(Value::String(text)) = sent.get("Certificate") else {
            return Err(ApiError::argument("Certificate is a mandatory property"));
        };
        let pair = pair_of(text, "")?;
        blocking(move || {
            let replaced = tls.replace(&pair, call.state.engine.clock().now().ticks());
            replaced.map_err(|error| {
                let message = "Failed to replace the server certificate.";
                ApiError::invalid_operation(message).caused_by(error.to_string())
            })?;
            call.state.reload_certificate(&tls)?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `GET /admin/certificates/mode`.
pub(crate) fn mode(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &json!({"SetupMode": "None"})))
}

/// `GET /admin/certificates/cluster-domains`: the hosts of all nodes, of which there is one.
pub(crate) fn cluster_domains(call: &Call) -> Result<Answer, ApiError> {
    let address = call.state.address_for(&call.headers)?;
    let authority = address.split_once("://").map_or(&*address, |(_, authority)| authority);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    Ok(Answer::shape(StatusCode::OK, &json!({"ClusterDomains": [host]})))
}

/// `GET /admin/certificates/replacement/status`: no certificate is being replaced.
pub(crate) fn replacement_status(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::NOT_FOUND))
}

/// The TLS of the server; without it nobody could use a certificate.
fn secured(call: &Call) -> Result<Arc<ServerTls>, ApiError> {
    call.state.tls().cloned().ok_or_else(|| {
        ApiError::invalid_operation(
            "This server has no certificate, so clients cannot use any. Set Security.Certificate.Path; \
             `corvus setup secure` makes one.",
        )
    })
}

fn entry_of(asked: &GrantedAccess, certificate: &Certificate) -> RegisteredCertificate {
    let GrantedAccess { name, clearance, permissions } = asked.clone();
    RegisteredCertificate::new(certificate, name, clearance, permissions)
}

/// Changes what a certificate is registered as. An operator must not change or remove an administrator of the
/// cluster, and nobody one that the configuration names.
fn change(
    call: &Call,
    thumbprint: &str,
    decide: impl FnOnce(
        Option<RegisteredCertificate>,
    ) -> Result<Option<RegisteredCertificate>, ApiError>,
) -> Result<(), ApiError> {
    let own = call.caller.grant()?;
    if call.state.engine.is_configured_certificate(thumbprint) {
        return Err(ApiError::invalid_operation(format!(
            "The certificate {thumbprint} is that of the server, or of an administrator in \
             Security.WellKnownCertificates.Admin. Change the settings of the server."
        )));
    }
    let (by, clearance) = (own.name, own.clearance);
    call.state.engine.change_certificate(thumbprint, |before| {
        let is_above = before.as_ref().is_some_and(|entry| entry.security_clearance.is_cluster_admin());
        if is_above && !clearance.is_cluster_admin() {
            return Err(ApiError::invalid_operation(format!(
                "The certificate {thumbprint} is that of a cluster administrator, and the current client certificate \
                 being used has a lower clearance: {}",
                clearance.name()
            )));
        }
        let after = decide(before)?;
        let now = after.as_ref().map_or("none", |entry| entry.security_clearance.name());
        tracing::info!(thumbprint, by, clearance = now, "a certificate was registered or removed");
        Ok(after)
    })
}

/// A thumbprint as it is stored: tools print it in any case, and with separators.
fn normal(thumbprint: &str) -> String {
    let digits = thumbprint.chars().filter(|digit| !matches!(digit, ':') && !digit.is_whitespace());
    digits.collect::<String>().to_ascii_uppercase()
}

/// A certificate as it was uploaded: in base64 the bytes of DER, PEM or PKCS #12.
pub(crate) fn uploaded(text: &str, password: &str) -> Result<Certificate, ApiError> {
    let bytes = base64_bytes(text).ok_or_else(unusable)?;
    if let Ok(certificate) = Certificate::from_der(&bytes) {
        return Ok(certificate);
    }
    if let Ok(certificate) = Certificate::from_pem(&bytes) {
        return Ok(certificate);
    }
    Ok(pair_of(text, password)?.certificate().clone())
}

/// A certificate with its key as it was uploaded: in base64 the bytes of PEM or PKCS #12.
fn pair_of(text: &str, password: &str) -> Result<KeyPair, ApiError> {
    let bytes = Zeroizing::new(base64_bytes(text).ok_or_else(unusable)?);
    KeyPair::from_file(&bytes, None, password)
        .map_err(|error| unusable().caused_by(error.to_string()))
}

fn unusable() -> ApiError {
    ApiError::argument("Unable to load the provided certificate.")
}

/// Runs `work` in a thread that yields to all others.
fn stepping_back<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ApiError> {
    let work = || {
        thread_priority::step_back();
        work()
    };
    let ended = thread::scope(|scope| {
        let thread = thread::Builder::new().name("new key".to_owned()).spawn_scoped(scope, work);
        thread.map(|thread| thread.join())
    });
    let ended = ended.map_err(|error| ApiError::new(ErrorKind::Internal, error.to_string()))?;
    ended.map_err(|_| ApiError::new(ErrorKind::Internal, "making a key failed"))
}

/// A certificate and its key, in each form that clients read: PKCS #12; two files, of which the first is the certificate
/// without its issuer, since clients upload what is between its first line and its last; all in one file.
fn archive_of(made: &KeyPair, name: &str, password: &str) -> Result<Vec<u8>, ApiError> {
    let failed = |error: String| ApiError::new(ErrorKind::Internal, error);
    let pfx = made.to_pfx(name, password).map_err(|error| failed(error.to_string()))?;
    let file_name = file_name_of(name);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let (certificate, key) = (made.certificate().to_pem(), made.key_pem());
    let all = Zeroizing::new(format!("{}{}", made.chain_pem(), *key));
    let files = [
        ("pfx", &**pfx),
        ("crt", certificate.as_bytes()),
        ("key", key.as_bytes()),
        ("pem", all.as_bytes()),
    ];
    for (ending, bytes) in files {
        zip.start_file(format!("{file_name}.{ending}"), options)
            .map_err(|error| failed(error.to_string()))?;
        zip.write_all(bytes).map_err(|error| failed(error.to_string()))?;
    }
    let written = zip.finish().map_err(|error| failed(error.to_string()))?;
    Ok(written.into_inner())
}

/// The name without what a name of a file cannot have.
fn file_name_of(name: &str) -> String {
    let safe = |character: char| match character {
        character if character.is_ascii_alphanumeric() => character,
        '-' | '_' | '.' => character,
        _ => '_',
    };
    name.chars().map(safe).collect()
}
