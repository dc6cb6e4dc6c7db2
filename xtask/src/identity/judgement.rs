//! Comparing a server with what it has acknowledged.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    model::Model,
    stage::{DATABASES, NUMBERS, Stage},
    tampering::{Blind, Tampering},
};
use crate::{Failure, http_client::Answer};

/// How long opening a database, or catching up an index, may take.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The verdict on a server, or on a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything is correct and complete.
    Right,
    /// It rejects requests and says why.
    Refused(String),
    /// It has the state of an earlier moment, which no server could detect.
    Blind(Blind),
    /// Something is wrong, or silently missing.
    Violation(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Blind(blind) => write!(f, "undetectable: {blind}"),
            Self::Violation(what) => write!(f, "WRONG: {what}"),
        }
    }
}

impl Verdict {
    pub(crate) fn is_violation(&self) -> bool {
        matches!(self, Self::Violation(_))
    }

    pub(crate) fn is_right(&self) -> bool {
        *self == Self::Right
    }

    /// The name under which it is counted.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Right => "right".to_owned(),
            Self::Refused(_) => "refused with a reason".to_owned(),
            Self::Blind(blind) => format!("undetectable: {blind}"),
            Self::Violation(_) => "WRONG".to_owned(),
        }
    }

    /// The worse of two verdicts.
    pub(crate) fn and(self, other: Self) -> Self {
        let weight = |verdict: &Self| match verdict {
            Self::Right => 0,
            Self::Refused(_) => 1,
            Self::Blind(_) => 2,
            Self::Violation(_) => 3,
        };
        if weight(&self) < weight(&other) { other } else { self }
    }
}

/// The indexes of every database.
pub(crate) fn indexes() -> Value {
    json!([
        {"Name": "ByN", "Maps": ["from d in docs.Docs select new { d.N }"]},
        {
            "Name": "Sum",
            "Maps": ["from d in docs.Docs select new { d.N, Count = 1 }"],
            "Reduce": "from r in results group r by r.N into g \
                       select new { N = g.Key, Count = g.Sum(x => x.Count) }"
        }
    ])
}

/// Judges every database of the first server.
pub(crate) fn judge(stage: &Stage, tampering: Option<&Tampering>) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::Right;
    for (at, name) in DATABASES.iter().enumerate() {
        let judge = |model: &Model| Judge { stage, name, model }.judge();
        let mut found = judge(&stage.models[0][at])?;
        if found.is_violation()
            && let Some(tampering) = tampering
            && let Some((blind, model)) = stage.alternative(tampering, at)
            && !judge(&model)?.is_violation()
        {
            found = Verdict::Blind(blind);
        }
        verdict = verdict.and(found);
    }
    Ok(verdict)
}

struct Judge<'s> {
    stage: &'s Stage,
    name: &'s str,
    model: &'s Model,
}

/// The content of a part, or why it was rejected.
type Read<T> = Result<T, Verdict>;

impl Judge<'_> {
    fn judge(&self) -> Result<Verdict, Failure> {
        let documents = self.documents()?;
        let mut verdict = match documents {
            Ok(()) => Verdict::Right,
            // Nothing else is served in that case.
            Err(verdict) => return Ok(verdict),
        };
        for part in [self.values()?, self.identities()?] {
            verdict = verdict.and(part.err().unwrap_or(Verdict::Right));
        }
        for number in 0..NUMBERS {
            verdict = verdict.and(self.entries(number)?.err().unwrap_or(Verdict::Right));
        }
        Ok(verdict)
    }

    fn wrong(&self, what: &str) -> Verdict {
        Verdict::Violation(format!("database {}: {what}", self.name))
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Answer, Failure> {
        let path = format!("/databases/{}/{path}", self.name);
        let began = Instant::now();
        loop {
            let answer = self.stage.ask(0, (method, &path), body)?;
            if !is_opening(&answer) || PATIENCE < began.elapsed() {
                return Ok(answer);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The response, or the reason why it was rejected. A database that is silently missing is a
    /// loss.
    fn read(&self, method: &str, path: &str, body: &Value) -> Result<Read<Value>, Failure> {
        let answer = self.ask(method, path, body)?;
        let read = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
        if (200..300).contains(&answer.status) {
            return Ok(Ok(read));
        }
        let kind = read["Type"].as_str().unwrap_or_default();
        let message = read["Message"].as_str().or(read["Error"].as_str()).unwrap_or_default();
        if kind.ends_with("DatabaseDoesNotExistException") && !message.contains("found on disk") {
            return Ok(Err(self.wrong(&format!("it does not exist: {message}"))));
        }
        if answer.status < 500 || message.is_empty() {
            return Ok(Err(self.wrong(&format!("{method} {path}: {}", answer.described()))));
        }
        Ok(Err(Verdict::Refused(message.lines().next().unwrap_or_default().to_owned())))
    }

    fn documents(&self) -> Result<Read<()>, Failure> {
        let answer = match self.read("GET", "docs?start=0&pageSize=1000", &Value::Null)? {
            Ok(answer) => answer,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let found = answer["Results"].as_array().cloned().unwrap_or_default();
        let found: BTreeMap<String, u64> = found
            .iter()
            .filter_map(|one| {
                let id = one["@metadata"]["@id"].as_str()?.to_owned();
                Some((id, one["N"].as_u64()?))
            })
            .collect();
        Ok(match found == self.model.documents {
            true => Ok(()),
            false => Err(self.wrong(&difference("documents", &found, &self.model.documents))),
        })
    }

    fn values(&self) -> Result<Read<()>, Failure> {
        let path = "cmpxchg?startsWith=key/&start=0&pageSize=1000";
        let answer = match self.read("GET", path, &Value::Null)? {
            Ok(answer) => answer,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let found = answer["Results"].as_array().cloned().unwrap_or_default();
        let value = |one: &Value| {
            let number = one["Value"]["Object"].as_u64()?;
            Some((one["Key"].as_str()?.to_owned(), (number, one["Index"].as_u64()?)))
        };
        let found: BTreeMap<_, _> = found.iter().filter_map(value).collect();
        Ok(match found == self.model.values {
            true => Ok(()),
            false => Err(self.wrong(&difference("values", &found, &self.model.values))),
        })
    }

    fn identities(&self) -> Result<Read<()>, Failure> {
        let answer = match self.read("GET", "debug/identities", &Value::Null)? {
            Ok(answer) => answer,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let found = answer["numbers|"].as_u64().unwrap_or(0);
        let last = self.model.identities.get("numbers").copied().unwrap_or(0);
        Ok(match found == last {
            true => Ok(()),
            false => Err(self.wrong(&format!("an identity is at {found}, and was at {last}"))),
        })
    }

    /// The results of non-stale indexes for a number.
    fn entries(&self, number: u64) -> Result<Read<()>, Failure> {
        let query = |text: &str| json!({"Query": text, "WaitForNonStaleResults": true});
        let expected = self.model.count_of(number);
        for (index, path) in [("ByN", "TotalResults"), ("Sum", "Count")] {
            let text = format!("from index '{index}' where N = {number}");
            let answer = match self.read("POST", "queries", &query(&text))? {
                Ok(answer) => answer,
                Err(verdict) => return Ok(Err(verdict)),
            };
            if answer["IsStale"] != false {
                return Ok(Err(self.wrong(&format!("{text} stays stale"))));
            }
            let found = match path {
                "Count" => &answer["Results"][0][path],
                path => &answer[path],
            };
            let found = found.as_u64().unwrap_or(0);
            if found != expected {
                let what = format!("{text}: {found}, and {expected} are there");
                return Ok(Err(self.wrong(&what)));
            }
        }
        Ok(Ok(()))
    }
}

/// Whether the database may be there in a moment. One that cannot be opened is as it will be.
fn is_opening(answer: &Answer) -> bool {
    let read = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
    read["Type"].as_str().is_some_and(|kind| kind.ends_with("LoadTimeoutException"))
}

fn difference<V: PartialEq + fmt::Debug>(
    what: &str,
    found: &BTreeMap<String, V>,
    expected: &BTreeMap<String, V>,
) -> String {
    let missing: Vec<_> = expected.iter().filter(|(key, _)| !found.contains_key(*key)).collect();
    let strange: Vec<_> = found.iter().filter(|(key, _)| !expected.contains_key(*key)).collect();
    let other: Vec<_> = expected
        .iter()
        .filter_map(|(key, value)| Some((key, value, found.get(key)?)))
        .filter(|(_, value, found)| value != found)
        .collect();
    format!("{what}: missing {missing:?}, unexpected {strange:?}, different {other:?}")
}
