//! The rows of the table that have an effect: the keys that Corvus reads, and the few of RavenDB
//! that it refuses.
//!
//! Not here: keys that are accepted without effect (`accepted_keys`).
//! Invariant: every row of [`ACTIVE`] is read by `settings`, and its default is a valid value
//! (tests).

use crate::key::{Choice, Key, SizeUnit, TimeUnit, ValueType};

const NO_WIZARD: &str =
    "Corvus has no setup wizard. Use None and set ServerUrl and DataDir directly";

const SETUP_MODES: &[Choice] = &[
    works("None"),
    Choice { name: "Initial", unavailable: Some(NO_WIZARD) },
    Choice { name: "LetsEncrypt", unavailable: Some(NO_WIZARD) },
    Choice { name: "Secured", unavailable: Some(NO_WIZARD) },
    Choice { name: "Unsecured", unavailable: Some(NO_WIZARD) },
];

const COMPRESSION_LEVELS: &[Choice] =
    &[works("Fastest"), works("Optimal"), works("SmallestSize"), works("NoCompression")];

const LOG_MODES: &[Choice] = &[works("None"), works("Operations"), works("Information")];

const LOG_LEVELS: &[Choice] = &[
    works("Trace"),
    works("Debug"),
    works("Info"),
    works("Warn"),
    works("Error"),
    works("Fatal"),
    works("Off"),
];

const LOG_FORMATS: &[Choice] = &[works("Text"), works("Json")];

const UTC_ONLY: &[Choice] = &[
    works("true"),
    Choice {
        name: "false",
        unavailable: Some("Corvus writes the times of its log in UTC. Remove the setting"),
    },
];

/// The keys that Corvus reads, in the order in which a reader of the documentation needs them.
pub(crate) static ACTIVE: &[Key] = &[
    Key::active(
        "ServerUrl",
        ValueType::HttpUrls,
        Some("http://127.0.0.1:8080"),
        "The addresses to listen on for HTTP. Port 0 takes any free port.",
    ),
    Key::active(
        "ServerUrl.Tcp",
        ValueType::TcpUrls,
        None,
        "The addresses to listen on for the TCP protocol alone. A bare port means the hosts of \
         ServerUrl. When unset: none, because the TCP protocol is spoken on the addresses of \
         ServerUrl, too, so that one port is enough.",
    ),
    Key::active(
        "PublicServerUrl",
        ValueType::PublicHttpUrl,
        None,
        "The address that clients and other nodes should use. When unset: the address that is \
         listened on. Required when ServerUrl lists several.",
    ),
    Key::active(
        "PublicServerUrl.Tcp",
        ValueType::PublicTcpUrl,
        None,
        "The TCP address that clients and other nodes should use. When unset: the address \
         that the client used for HTTP, with the port of ServerUrl.Tcp where that is set.",
    ),
    Key::active(
        "DataDir",
        ValueType::Path,
        Some("data"),
        "The directory that holds everything the server keeps. In a database record: the directory \
         of that database alone.",
    )
    .per_database(),
    Key::active(
        "RunInMemory",
        ValueType::Bool,
        Some("false"),
        "Keep all data in memory and write nothing to disk. Everything is lost when the server \
         stops.",
    )
    .per_database(),
    Key::active(
        "Setup.Mode",
        ValueType::Choice(SETUP_MODES),
        Some("None"),
        "Which setup wizard to start. Only None is available.",
    ),
    Key::active(
        "Security.UnsecuredAccessAllowed",
        ValueType::UnsecuredAccess,
        Some("Local"),
        "From which addresses the server may be reached without certificates. Several may be \
         joined by commas. A wider range includes the narrower ones.",
    ),
    Key::active(
        "Security.Certificate.Path",
        ValueType::Path,
        None,
        "The certificate with which the server identifies itself, with its private key: a PKCS #12 file \
         (.pfx), or a PEM file that begins with the certificate of the server. All addresses of ServerUrl \
         must begin with https:// then, and every client needs a certificate that is registered. `corvus \
         setup secure` makes one. Files that others may read are refused. The server looks for a newer \
         file once a minute, and uses it for new connections.",
    ),
    Key::active(
        "Security.Certificate.Key.Path",
        ValueType::Path,
        None,
        "The private key of Security.Certificate.Path in PEM, if it is a file of its own.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.Certificate.Password",
        ValueType::Text,
        None,
        "The password of a PKCS #12 file in Security.Certificate.Path.",
    )
    .secret(),
    Key::active(
        "Security.Certificate.Load.Exec",
        ValueType::Path,
        None,
        "A program instead of Security.Certificate.Path, which writes the certificate with its private key to its \
         standard output, in PKCS #12 or PEM. It is started directly, without a shell, when the server starts, once an \
         hour, and at POST /admin/certificates/refresh; another certificate is used for new connections then.",
    ),
    Key::active(
        "Security.Certificate.Load.Exec.Arguments",
        ValueType::Arguments,
        None,
        "The arguments of Security.Certificate.Load.Exec.",
    )
    .secret(),
    Key::active(
        "Security.Certificate.Exec.TimeoutInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 3600 },
        Some("30"),
        "How long Security.Certificate.Load.Exec may take; then it is ended.",
    ),
    Key::active(
        "Security.WellKnownCertificates.Admin",
        ValueType::Thumbprints,
        None,
        "Certificates of clients that may do everything, without being registered.",
    ),
    Key::active(
        "Security.ApiKeys.Enabled",
        ValueType::Bool,
        Some("false"),
        "Whether clients may identify themselves by an API key instead of a certificate, in the header Authorization: \
         Bearer. A server without a certificate then serves nobody else: whoever ends TLS in front of it sees the keys.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.ApiKeys.Admin",
        ValueType::ApiKeyHashes,
        None,
        "API keys that may do everything, without being registered: for each, its id, a dot and the SHA-256 of its \
         second half, as `corvus setup api-key` prints them with a new key. Needed where there is no certificate, because nobody could register \
         the first key.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.TlsTerminatedByProxy",
        ValueType::Bool,
        Some("false"),
        "Says that the addresses of ServerUrl, which begin with http://, can be reached through something that ends TLS \
         only, such as an ingress. A server that identifies clients by API keys alone refuses to listen beyond this \
         machine without it. Clients are told https:// addresses then.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.MasterKey.Path",
        ValueType::Path,
        None,
        "The file with the master key, with which the keys of encrypted databases are encrypted: 32 bytes, or their \
         base64. Files that others may read are refused. Unset: a master key is made in the data directory, so that \
         whoever has the directory can read the databases.",
    ),
    Key::active(
        "Security.MasterKey.Exec",
        ValueType::Path,
        None,
        "A program instead of Security.MasterKey.Path, which writes the master key to its standard output. It is started \
         directly, without a shell, whenever the key is needed: when an encrypted database is opened, and when a key of \
         one is stored.",
    ),
    Key::active(
        "Security.MasterKey.Exec.Arguments",
        ValueType::Arguments,
        None,
        "The arguments of Security.MasterKey.Exec.",
    )
    .secret(),
    Key::active(
        "Security.MasterKey.Exec.TimeoutInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 3600 },
        Some("30"),
        "How long Security.MasterKey.Exec may take; then it is ended.",
    ),
    Key::active(
        "Security.AllowEncryptedDatabasesOverHttp",
        ValueType::Bool,
        Some("false"),
        "Whether databases may be encrypted although the server has no certificate: what is encrypted on the disk is \
         sent in the clear then.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.AuditLog.FolderPath",
        ValueType::Path,
        None,
        "The directory of the audit log: a line of JSON for each request that administers the server or a \
         database, and for each that is refused for lack of a certificate or a clearance: when, from where, \
         with which certificate, what, and the status. Unset: there is none.",
    ),
    Key::active(
        "Security.AuditLog.RetentionTimeInHrs",
        ValueType::Duration { unit: TimeUnit::Hours, min: 1, max: 1_000_000 },
        Some("8760"),
        "Older files of the audit log are deleted when a new one is begun.",
    ),
    Key::active(
        "Security.AllowScriptsOfReaders",
        ValueType::Bool,
        Some("true"),
        "Whether clients that may only read a database may run JavaScript of their own in it: functions that \
         a query declares, and objects that it selects. Scripts of those who may write always run.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.AllowedHosts",
        ValueType::HostNames,
        None,
        "Further names under which clients may reach the server, such as that of a container or of a \
         proxy. Requests that name another host than these, localhost, an IP address, or the hosts \
         of ServerUrl and PublicServerUrl are refused: a web page could have sent them from a \
         browser of this machine.",
    )
    .added_by_corvus(),
    Key::active(
        "Security.AllowedOrigins",
        ValueType::Origins,
        None,
        "The addresses of web sites, other than the server's own, whose pages may send requests, as a \
         browser names them in the header Origin. Needed behind a proxy that changes the header \
         Host. All other web sites are refused.",
    )
    .added_by_corvus(),
    Key::active(
        "Studio.Path",
        ValueType::Path,
        None,
        "The directory with the files of the Studio, the web interface: what `studio/run build` writes to \
         studio/dist. They are read for each request, so that changes to them appear without a restart. When \
         unset: the files inside the executable.",
    ),
    Key::active(
        "Logs.Mode",
        ValueType::Choice(LOG_MODES),
        Some("Operations"),
        "How much is logged: nothing, what an operator wants to know, or what helps to find a fault, too. \
         POST /admin/logs/configuration changes it while the server runs.",
    ),
    Key::active(
        "Logs.MinLevel",
        ValueType::Choice(LOG_LEVELS),
        None,
        "The same as a level: entries of this level and above are logged. It counts more than Logs.Mode, \
         of which Operations is Info and Information is Debug.",
    ),
    Key::active(
        "Logs.Format",
        ValueType::Choice(LOG_FORMATS),
        Some("Text"),
        "Whether an entry is a line of text, or a line of JSON with the properties timestamp, level, \
         target and fields.",
    )
    .added_by_corvus(),
    Key::active(
        "Logs.Path",
        ValueType::Path,
        None,
        "The directory of log files. When unset: the log goes to standard error only, where it goes in \
         any case.",
    ),
    Key::active(
        "Logs.MaxFileSizeInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 1_048_576 },
        Some("128"),
        "The size at which a log file is closed and the next one started. Each day starts a new file, too.",
    ),
    Key::active(
        "Logs.RetentionTimeInHrs",
        ValueType::Duration { unit: TimeUnit::Hours, min: 1, max: 1_000_000 },
        Some("72"),
        "Older log files are deleted when a new one is begun.",
    ),
    Key::active(
        "Logs.RetentionSizeInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 1 << 30 },
        Some("1024"),
        "The oldest log files are deleted when all together are larger.",
    ),
    Key::active(
        "Logs.Compress",
        ValueType::Bool,
        Some("false"),
        "Compress log files that are closed, with gzip.",
    ),
    Key::active(
        "Logs.UseUtcTime",
        ValueType::Choice(UTC_ONLY),
        Some("true"),
        "Whether the times of the log are in UTC. They always are.",
    ),
    Key::active(
        "Logs.SlowRequestThresholdInMs",
        ValueType::Duration { unit: TimeUnit::Milliseconds, min: 0, max: 3_600_000 },
        Some("5000"),
        "Requests of which the answer takes longer to begin are logged as slow. 0 logs none.",
    )
    .added_by_corvus(),
    Key::active(
        "Storage.JournalsPath",
        ValueType::Path,
        None,
        "The directory for journals, to put them on a device of their own. When unset: next to the \
         data of each database.",
    )
    .per_database()
    .added_by_corvus(),
    Key::active(
        "Storage.MaxUnflushedInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 65_536 },
        None,
        "How much committed data may wait in journals and memory before it must be flushed to the \
         data file. More makes bursts of writes faster and recovery longer. When unset: 256, or an \
         eighth of the memory limit where that is less.",
    )
    .per_database()
    .added_by_corvus(),
    Key::active(
        "Storage.JournalSizeMaxInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 1_024 },
        Some("64"),
        "The size at which a journal file is closed and the next one begun.",
    )
    .per_database()
    .added_by_corvus(),
    Key::active(
        "Storage.FreeSpaceAlertThresholdInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 0, max: 1 << 40 },
        Some("1024"),
        "With less free space than this on a disk of a database, the server warns. 0 never warns.",
    )
    .per_database(),
    Key::active(
        "Storage.FreeSpaceAlertThresholdInPercentages",
        ValueType::Integer { min: 0, max: 100 },
        Some("15"),
        "With a smaller part of a disk of a database free than this, the server warns. 0 never \
         warns.",
    )
    .per_database(),
    Key::active(
        "Storage.FreeSpaceWriteThresholdInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 0, max: 1 << 40 },
        Some("128"),
        "With less free space than this on a disk of a database, its writes are refused until \
         there is more. 0 refuses them only once the disk is full.",
    )
    .per_database()
    .added_by_corvus(),
    Key::active(
        "Storage.SlowIoThresholdInMs",
        ValueType::Duration { unit: TimeUnit::Milliseconds, min: 1, max: 3_600_000 },
        Some("500"),
        "A write or sync that takes this long or longer is logged as slow, and kept for \
         diagnostics.",
    )
    .per_database()
    .added_by_corvus(),
    Key::active(
        "Memory.LimitInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 64, max: 1 << 30 },
        None,
        "How much memory the server may take. Caches and buffers are sized by it. The limit of the \
         control group (of a container or a service) and the memory of the machine hold as well; \
         the smallest of them counts.",
    )
    .added_by_corvus(),
    Key::active(
        "Memory.LowMemoryLimitInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 1 << 30 },
        None,
        "With less memory left than this, the server saves: it flushes at once, closes unused \
         databases early and, with less than a third of it left, refuses large requests. When \
         unset: a fifth of the memory limit, at most 2048.",
    ),
    Key::active(
        "Databases.AllowedDirectories",
        ValueType::Paths,
        None,
        "Directories, outside of the data directory, below which records of databases may name their \
         DataDir and Storage.JournalsPath. Clients that may create databases can then have files written \
         there.",
    )
    .added_by_corvus(),
    Key::active(
        "Backup.LocalRootPath",
        ValueType::Path,
        None,
        "The directory below which backups are written to, and restored from; a folder that a client names without \
         a leading slash is one below it. When unset: Backups in the data directory, which is on the same disk as \
         the databases, so name another.",
    ),
    Key::active(
        "Backup.MaxNumberOfConcurrentBackups",
        ValueType::Integer { min: 1, max: 64 },
        Some("2"),
        "How many scheduled backups may run at the same time. The others wait.",
    ),
    Key::active(
        "Databases.MaxConcurrentLoads",
        ValueType::Integer { min: 1, max: 1_024 },
        Some("8"),
        "How many databases may be opened at the same time.",
    ),
    Key::active(
        "Databases.ConcurrentLoadTimeoutInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 3_600 },
        Some("60"),
        "How long a database waits for its turn to be opened before the request is answered with \
         503.",
    ),
    Key::active(
        "Databases.MaxIdleTimeInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 31_536_000 },
        Some("900"),
        "How long a database may go unused before it is closed to free its memory.",
    )
    .per_database(),
    Key::active(
        "Databases.FrequencyToCheckForIdleInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 86_400 },
        Some("60"),
        "How often the server looks for unused databases.",
    ),
    Key::active(
        "Server.MaxTimeForTaskToWaitForDatabaseToLoadInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 3_600 },
        Some("30"),
        "How long a request waits for its database to open before it is answered with 503.",
    ),
    Key::active(
        "Server.MaxConnections",
        ValueType::Integer { min: 1, max: 1_000_000 },
        Some("10000"),
        "How many client connections may be open at once. Further ones take the places of unused \
         ones, or wait.",
    )
    .added_by_corvus(),
    Key::active(
        "Server.ShutdownTimeoutInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 0, max: 3_600 },
        Some("30"),
        "How long requests in progress may take to finish after a request to stop the server.",
    )
    .added_by_corvus(),
    Key::active(
        "Embedded.ParentProcessId",
        ValueType::Integer { min: 1, max: i32::MAX as u64 },
        None,
        "The process that started the server as a part of itself: when it ends, the server stops.",
    ),
    Key::active(
        "Testing.ParentProcessId",
        ValueType::Integer { min: 1, max: i32::MAX as u64 },
        None,
        "The same for servers of a test suite.",
    ),
    Key::active(
        "Server.ProtocolVersion",
        ValueType::Version,
        Some("5.4.207.54178"),
        "The RavenDB version reported to clients in the header Raven-Server-Version. Clients \
         choose features by it.",
    )
    .added_by_corvus(),
    Key::active(
        "Http.MaxRequestBodySizeInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 65_536 },
        Some("256"),
        "The largest body of a single request. Large ones together take an eighth of the memory at \
         most. Bulk inserts are streamed and not limited by it.",
    )
    .added_by_corvus(),
    Key::active(
        "Http.MaxRequestHeadSizeInKb",
        ValueType::Size { unit: SizeUnit::Kilobytes, min: 8, max: 1_024 },
        Some("64"),
        "The largest request line and headers of a request together.",
    )
    .added_by_corvus(),
    Key::active(
        "Http.MaxRequestLineSizeInKb",
        ValueType::Size { unit: SizeUnit::Kilobytes, min: 1, max: 1_024 },
        Some("16"),
        "The largest request line, which contains the address with its parameters.",
    ),
    Key::active(
        "Http.RequestHeadTimeoutInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 3_600 },
        Some("10"),
        "How long a client may take to send the headers of a request.",
    )
    .added_by_corvus(),
    Key::active(
        "Http.IdleConnectionTimeoutInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 86_400 },
        Some("120"),
        "How long a connection without a request is kept open.",
    )
    .added_by_corvus(),
    Key::active(
        "Http.MinDataRateBytesPerSec",
        ValueType::Integer { min: 0, max: i32::MAX as u64 },
        Some("240"),
        "How many bytes in a second clients take of an answer, and send of the body of a request, at \
         least; slower ones are cut off. Only the time counts in which the server waits for the client. \
         0: there is no such rate. Bodies of bulk inserts may be sent at any rate.",
    ),
    Key::active(
        "Http.MinDataRateGracePeriodInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 0, max: 3_600 },
        Some("5"),
        "For how long a client may be slower than Http.MinDataRateBytesPerSec; and for how long it may take \
         nothing of a long answer when others wait for its place.",
    ),
    Key::active(
        "Http.UseResponseCompression",
        ValueType::Bool,
        Some("true"),
        "Compress responses for clients that request it.",
    ),
    Key::active(
        "Http.GzipResponseCompressionLevel",
        ValueType::Choice(COMPRESSION_LEVELS),
        Some("Fastest"),
        "How hard to compress responses with gzip.",
    ),
    Key::active(
        "Http.DeflateResponseCompressionLevel",
        ValueType::Choice(COMPRESSION_LEVELS),
        Some("Fastest"),
        "How hard to compress responses with deflate.",
    ),
    Key::active(
        "Http.ZstdResponseCompressionLevel",
        ValueType::Choice(COMPRESSION_LEVELS),
        Some("Fastest"),
        "How hard to compress responses with zstd.",
    ),
    Key::active(
        "Http.CompressedResponseSizeMinInBytes",
        ValueType::Integer { min: 0, max: 1_048_576 },
        Some("128"),
        "Smaller responses are sent as they are: compressing them costs more time than their bytes.",
    )
    .added_by_corvus(),
    Key::active(
        "Changes.MaxQueuedSizePerConnectionInKb",
        ValueType::Size { unit: SizeUnit::Kilobytes, min: 16, max: 1_048_576 },
        Some("16384"),
        "What may wait for one client of the Changes API. A client that does not keep up is \
         disconnected; it connects again by itself.",
    )
    .added_by_corvus(),
    Key::active(
        "Changes.MaxQueuedSizeInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 4_095 },
        Some("256"),
        "What may wait for all clients of the Changes API together. Beyond it, those for whom much \
         waits are disconnected.",
    )
    .added_by_corvus(),
    Key::active(
        "Snapshots.LifetimeInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 300 },
        Some("5"),
        "How long a snapshot is held for a client that does not say how long.",
    )
    .added_by_corvus(),
    Key::active(
        "Snapshots.MaxLifetimeInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 300 },
        Some("30"),
        "How long a snapshot may be held for a client. While it is held, what is written stays in \
         memory and in the journal; a snapshot that keeps too much ends early.",
    )
    .added_by_corvus(),
    Key::active(
        "Snapshots.MaxOpenPerDatabase",
        ValueType::Integer { min: 1, max: 65_536 },
        Some("1024"),
        "How many snapshots of a database may be held for clients at once.",
    )
    .added_by_corvus(),
    Key::active(
        "Documents.MaxDocumentSizeInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 1_024 },
        Some("64"),
        "The largest document that is stored.",
    )
    .added_by_corvus(),
    Key::active(
        "Documents.MaxNestingDepth",
        ValueType::Integer { min: 8, max: 512 },
        Some("128"),
        "How deeply objects and arrays may be nested in JSON.",
    )
    .added_by_corvus(),
    Key::active(
        "Indexing.Disable",
        ValueType::Bool,
        Some("false"),
        "Whether indexes are left as they are: they answer with what they have, and none follows the \
         documents, nor can be started, until this is taken back and the database is opened again.",
    )
    .per_database(),
    Key::active(
        "Indexing.MaxNumberOfConcurrentlyRunningIndexes",
        ValueType::Integer { min: 1, max: 1_024 },
        None,
        "How many indexes of all databases together may be at work at the same moment. When unset: \
         as many as there are cores, at least two.",
    ),
    Key::active(
        "Indexing.TimeBeforeDeletionOfSupersededAutoIndexInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 0, max: 86_400 },
        Some("15"),
        "How long an automatic index is kept when a wider one answers its queries.",
    )
    .per_database(),
    Key::active(
        "Indexing.TimeToWaitBeforeMarkingAutoIndexAsIdleInMin",
        ValueType::Duration { unit: TimeUnit::Minutes, min: 1, max: 1_000_000 },
        Some("30"),
        "An automatic index is idle when other automatic indexes were queried this much later than it.",
    )
    .per_database(),
    Key::active(
        "Indexing.TimeToWaitBeforeDeletingAutoIndexMarkedAsIdleInHrs",
        ValueType::Duration { unit: TimeUnit::Hours, min: 0, max: 1_000_000 },
        Some("72"),
        "An idle automatic index is deleted when it was not queried for this long.",
    )
    .per_database(),
    Key::active(
        "Cluster.TimeBeforeMovingToRehabInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 86_400 },
        Some("15"),
        "A member of a database that has not answered for so long is set aside, and another one does what it did.",
    ),
    Key::active(
        "Cluster.TimeBeforeAddingReplicaInSec",
        ValueType::Duration { unit: TimeUnit::Seconds, min: 1, max: 31_536_000 },
        Some("900"),
        "A node that has not answered for so long is replaced by another one in databases whose nodes are distributed \
         dynamically.",
    ),
    Key::active(
        "Cluster.HardDeleteOnReplacement",
        ValueType::Bool,
        Some("true"),
        "Whether a node that was replaced removes the files of the database when it comes back.",
    ),
    Key::active(
        "Tombstones.CleanupIntervalInMin",
        ValueType::Duration { unit: TimeUnit::Minutes, min: 1, max: 1_000_000 },
        Some("5"),
        "How often tombstones that are no longer needed are removed. GET \
         /databases/{name}/admin/tombstones/state shows what needs the others.",
    )
    .per_database(),
    Key::active(
        "Patching.MaxStepsForScript",
        ValueType::Integer { min: 1, max: 1_000_000_000 },
        Some("10000"),
        "How many statements the script of a patch may execute, roughly: it is stopped after four \
         times as many calls and loop iterations. Whatever is set here, it is stopped after two seconds.",
    )
    .per_database(),
    Key::active(
        "PerformanceHints.Documents.HugeDocumentSizeInMb",
        ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 1 << 20 },
        Some("5"),
        "Documents that are larger are noted when they are written or loaded: \
         GET /databases/{name}/debug/documents/huge.",
    )
    .per_database(),
    Key::active(
        "PerformanceHints.Documents.HugeDocumentsCollectionSize",
        ValueType::Integer { min: 1, max: 100_000 },
        Some("100"),
        "How many large documents are noted; the one used longest ago goes first.",
    )
    .per_database(),
];

const OLD_PROGRAM: &str = "It is an older name. Write Security.Certificate.Load.Exec, and \
     Security.Certificate.Load.Exec.Arguments";
const NO_PROGRAMS: &str = "Corvus runs no program when it makes a directory, so what the program was to do would \
     be missing. Remove it, and prepare the directories before the server starts";

/// Keys of RavenDB that promise what Corvus does not do, whatever their value: ignoring them silently
/// would be deceptive.
pub(crate) static REFUSED: &[Key] = &[
    Key::refused("Security.Certificate.Exec", OLD_PROGRAM),
    Key::refused("Storage.OnCreateDirectory.Exec", NO_PROGRAMS).per_database(),
    Key::refused("Storage.OnDirectoryInitialize.Exec", NO_PROGRAMS).per_database(),
];

const fn works(name: &'static str) -> Choice {
    Choice { name, unavailable: None }
}
