//! Buckets in a cloud. The engine has no network: the caller makes the requests.

use std::{fmt, io, io::Read};

use wire::S3Settings;

/// An object of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudObject {
    /// Its key: names with slashes between them.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Why something was not done with a bucket.
#[derive(Debug)]
pub enum CloudError {
    /// It is no longer wanted.
    Canceled,
    /// It could not be done, also not when it was tried again.
    Failed {
        /// Why, for operators: what the cloud has said.
        message: String,
    },
}

impl fmt::Display for CloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloudError::Canceled => f.write_str("The request was canceled."),
            CloudError::Failed { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for CloudError {}

/// Whether something is still wanted; asked several times a second.
pub type StillWantedThere<'w> = &'w (dyn Fn() -> bool + Sync);

/// Makes requests to buckets. All calls block, and end soon after they are no longer wanted. What fails for some time is
/// tried again for a while.
pub trait CloudStorage: Send + Sync {
    /// Stores an object: the file, with its length in bytes. It is there completely or not at all; memory holds a part of it.
    ///
    /// # Errors
    /// The file cannot be read; the bucket does not take it.
    fn upload(
        &self,
        bucket: &S3Settings,
        key: &str,
        file: (&mut dyn Read, u64),
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError>;

    /// Hands over the objects whose keys are below a folder, all of them unless `take` says that no more are needed.
    ///
    /// # Errors
    /// The bucket does not say so.
    fn list(
        &self,
        bucket: &S3Settings,
        folder: &str,
        take: &mut dyn FnMut(CloudObject) -> bool,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError>;

    /// Reads an object piece by piece.
    ///
    /// # Errors
    /// The bucket does not have it; those of `take`.
    fn download(
        &self,
        bucket: &S3Settings,
        key: &str,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError>;

    /// Deletes an object.
    ///
    /// # Errors
    /// The bucket does not do so.
    fn delete(
        &self,
        bucket: &S3Settings,
        key: &str,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError>;
}
