//! Where in a cloud backups are kept, as clients send it: buckets of S3 and of what speaks its protocol.
//!
//! Secrets are never shown: what is printed has [`HIDDEN`] in their place, and a definition that is sent back with that
//! keeps the secret that is stored.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    node_address::NodeAddress,
    sent_properties::{flag, object, property, text},
};

/// The destination, by the name of its property.
pub(crate) const S3: &str = "S3Settings";
/// Stands for a secret that is not shown.
pub const HIDDEN: &str = "(hidden)";

/// The destinations with secrets, and the properties that are secret.
const SECRETS: [(&str, &[&str]); 5] = [
    (S3, &["AwsSecretKey", "AwsSessionToken"]),
    ("GlacierSettings", &["AwsSecretKey", "AwsSessionToken"]),
    ("AzureSettings", &["AccountKey", "SasToken"]),
    ("GoogleCloudSettings", &["GoogleCredentialsJson"]),
    ("FtpSettings", &["Password"]),
];

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudSecret(pub String);

impl fmt::Debug for CloudSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CloudSecret(…)")
    }
}

/// A bucket, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Settings {
    /// The bucket.
    pub bucket: String,
    /// The region of Amazon; what stands for it elsewhere.
    pub region: String,
    /// The name of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: CloudSecret,
    /// What belongs to a key that is valid for some time.
    pub session_token: Option<CloudSecret>,
    /// The folder below which the backups are, without slashes around it; empty for none.
    pub folder: String,
    /// The server, if it is not Amazon's.
    pub server_url: Option<NodeAddress>,
    /// Whether the bucket is named in the path and not in the host.
    pub names_bucket_in_path: bool,
}

impl S3Settings {
    /// Reads the settings of a destination; `None` if it is disabled.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub(crate) fn read(sent: &Map<String, Value>) -> Result<Option<Self>, ProtocolError> {
        if flag(sent, "Disabled")? {
            return Ok(None);
        }
        if object(sent, "GetBackupConfigurationScript")?.is_some() {
            let message =
                "'GetBackupConfigurationScript' is not supported: name the bucket in 'BucketName'.";
            return Err(ProtocolError::new(ErrorKind::NotSupported, message));
        }
        let required = |name: &str| {
            let found = text(sent, name)?;
            found.ok_or_else(|| ProtocolError::argument(format!("{name} cannot be null or empty")))
        };
        let server_url = text(sent, "CustomServerUrl")?;
        let server_url = server_url.map(|url| {
            url.parse::<NodeAddress>().map_err(|error| {
                ProtocolError::argument(format!("'CustomServerUrl' is no address: {error}"))
            })
        });
        let server_url = server_url.transpose()?;
        let region = match (text(sent, "AwsRegionName")?, &server_url) {
            (Some(region), _) => region,
            (None, Some(_)) => "us-east-1".to_owned(),
            (None, None) => required("AwsRegionName")?,
        };
        let settings = Self {
            bucket: required("BucketName")?,
            region,
            access_key: required("AwsAccessKey")?,
            secret_key: CloudSecret(required("AwsSecretKey")?),
            session_token: text(sent, "AwsSessionToken")?.map(CloudSecret),
            folder: text(sent, "RemoteFolderName")?
                .map(|folder| folder.trim_matches('/').to_owned())
                .unwrap_or_default(),
            // A server of one's own seldom has a name for each bucket.
            names_bucket_in_path: flag(sent, "ForcePathStyle")? || server_url.is_some(),
            server_url,
        };
        settings.check()?;
        Ok(Some(settings))
    }

    /// Bucket and region are parts of a host: nothing else may be put into it by them.
    fn check(&self) -> Result<(), ProtocolError> {
        let is_label = |text: &str, more: &[char]| {
            text.len() <= 63
                && text.chars().all(|one| {
                    one.is_ascii_lowercase() || one.is_ascii_digit() || more.contains(&one)
                })
        };
        let refused = |what: &str| {
            let message = format!(
                "'{what}' may only have small letters, digits and hyphens, and at most 63 of them"
            );
            Err(ProtocolError::argument(message))
        };
        if !is_label(&self.region, &['-']) {
            return refused("AwsRegionName");
        }
        if !is_label(&self.bucket, &['-', '.']) {
            return refused("BucketName");
        }
        let mut secrets = [&self.secret_key].into_iter().chain(&self.session_token);
        if secrets.any(|secret| secret.0 == HIDDEN) {
            let message = "'AwsSecretKey' is missing: it is never shown, and has to be sent again for a new task.";
            return Err(ProtocolError::argument(message));
        }
        Ok(())
    }
}

/// Whether the definition of a backup names a server with buckets, enabled or not, legible or not.
pub fn names_cloud_server(definition: &Map<String, Value>) -> bool {
    let settings = property(definition, S3).and_then(Value::as_object);
    settings
        .is_some_and(|settings| property(settings, "CustomServerUrl").is_some_and(|url| *url != ""))
}

/// Replaces what is secret in the definition of a backup.
pub fn hide_cloud_secrets(definition: &mut Map<String, Value>) {
    each_secret(definition, &mut |_, _, secret| *secret = HIDDEN.into());
}

/// Puts the secrets that `stored` has into the places of those that are hidden.
pub fn keep_cloud_secrets(sent: &mut Map<String, Value>, stored: &Map<String, Value>) {
    each_secret(sent, &mut |destination, name, secret| {
        if secret == HIDDEN {
            let settings = property(stored, destination).and_then(Value::as_object);
            let known = settings.and_then(|settings| property(settings, name));
            if let Some(known) = known {
                *secret = known.clone();
            }
        }
    });
}

fn each_secret(definition: &mut Map<String, Value>, visit: &mut dyn FnMut(&str, &str, &mut Value)) {
    for (destination, settings) in definition.iter_mut() {
        let known = SECRETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(destination));
        let (Some((_, secrets)), Some(settings)) = (known, settings.as_object_mut()) else {
            continue;
        };
        for (name, value) in settings.iter_mut() {
            let is_secret = secrets.iter().any(|secret| secret.eq_ignore_ascii_case(name));
            if is_secret && value.is_string() {
                visit(destination, name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: Value) -> Result<Option<S3Settings>, ProtocolError> {
        let mut sent = json!({
            "BucketName": "b", "AwsRegionName": "eu-west-1", "AwsAccessKey": "k", "AwsSecretKey": "s3cret"
        });
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        S3Settings::read(sent.as_object().unwrap())
    }

    #[test]
    fn a_bucket_is_read_and_its_secrets_are_never_shown() {
        let settings = read(json!({"RemoteFolderName": "/a/b/", "AwsSessionToken": "t0ken"}));
        let settings = settings.unwrap().unwrap();
        assert_eq!((&*settings.folder, settings.names_bucket_in_path), ("a/b", false));
        let shown = format!("{settings:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
        let own = read(json!({"CustomServerUrl": "http://127.0.0.1:9000", "AwsRegionName": null}));
        let own = own.unwrap().unwrap();
        assert!(own.names_bucket_in_path && own.region == "us-east-1");
        assert_eq!(read(json!({"Disabled": true, "BucketName": 5})).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_a_bucket_is_refused_without_naming_secrets() {
        for (more, expected) in [
            (json!({"BucketName": ""}), "BucketName cannot be null or empty"),
            (json!({"AwsAccessKey": null}), "AwsAccessKey cannot be null or empty"),
            (json!({"AwsSecretKey": null}), "AwsSecretKey cannot be null or empty"),
            (json!({"AwsRegionName": null}), "AwsRegionName cannot be null or empty"),
            (json!({"AwsRegionName": "x.example.com/"}), "'AwsRegionName' may only have"),
            (json!({"BucketName": "b/../c"}), "'BucketName' may only have"),
            (json!({"CustomServerUrl": "ftp:/x"}), "'CustomServerUrl' is no address"),
            (json!({"AwsSecretKey": HIDDEN}), "has to be sent again"),
            (json!({"GetBackupConfigurationScript": {"Exec": "sh"}}), "is not supported"),
        ] {
            let error = read(more.clone()).unwrap_err();
            assert!(error.message.contains(expected), "{more}: {}", error.message);
            assert!(!error.message.contains("s3cret"));
        }
    }

    #[test]
    fn a_server_is_found_in_whatever_names_one() {
        for (sent, expected) in [
            (json!({"S3Settings": {"BucketName": "b"}}), false),
            (json!({"S3Settings": {"CustomServerUrl": null}}), false),
            (json!({"s3settings": {"customserverurl": "http://a", "AwsSecretKey": HIDDEN}}), true),
            (json!({"S3Settings": {"Disabled": true, "CustomServerUrl": 5}}), true),
        ] {
            assert_eq!(names_cloud_server(sent.as_object().unwrap()), expected, "{sent}");
        }
    }

    #[test]
    fn hidden_secrets_are_kept_when_a_definition_is_sent_back() {
        let stored = json!({
            "S3Settings": {"AwsAccessKey": "k", "AwsSecretKey": "s", "AwsSessionToken": null},
            "FtpSettings": {"Password": "p"}, "LocalSettings": {"FolderPath": "b"}
        });
        let stored = stored.as_object().unwrap();
        let mut shown = stored.clone();
        hide_cloud_secrets(&mut shown);
        assert_eq!(
            Value::Object(shown.clone()),
            json!({
                "S3Settings": {"AwsAccessKey": "k", "AwsSecretKey": HIDDEN, "AwsSessionToken": null},
                "FtpSettings": {"Password": HIDDEN}, "LocalSettings": {"FolderPath": "b"}
            })
        );
        let mut again = shown.clone();
        keep_cloud_secrets(&mut again, stored);
        assert_eq!(&again, stored);
        // A new one replaces it.
        shown["S3Settings"]["AwsSecretKey"] = "new".into();
        keep_cloud_secrets(&mut shown, stored);
        assert_eq!(shown["S3Settings"]["AwsSecretKey"], "new");
    }
}
