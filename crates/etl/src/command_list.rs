//! The commands of a batch as they are sent: JSON, and the contents of attachments behind it.
//!
//! Invariant: the n-th content is that of the n-th command that puts an attachment.

use blittable::write_json_string;

/// How the JSON of a request begins.
const HEAD: &[u8] = b"{\"Commands\":[";

/// The commands of one request.
#[derive(Debug, Default)]
pub struct CommandList {
    /// Empty, or the head and the commands.
    json: Vec<u8>,
    contents: Vec<Vec<u8>>,
    contents_bytes: usize,
    count: u64,
}

/// A request as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestBody {
    /// Its content type.
    pub content_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A place in a list, to which it can be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    json: usize,
    contents: usize,
    contents_bytes: usize,
    count: u64,
}

impl Mark {
    /// The memory of the list at that place.
    pub(crate) fn size_bytes(&self) -> usize {
        CommandList::memory_of(self.json, self.contents_bytes)
    }
}

impl CommandList {
    /// How many commands there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The memory that it takes, about, until the request was sent.
    pub fn size_bytes(&self) -> usize {
        Self::memory_of(self.json.len(), self.contents_bytes)
    }

    /// That of so many bytes of JSON and of contents, which are copied into the request.
    pub(crate) fn memory_of(json_bytes: usize, content_bytes: usize) -> usize {
        json_bytes.saturating_add(content_bytes.saturating_mul(2))
    }

    /// The commands, as the elements of a JSON array.
    pub fn commands(&self) -> &[u8] {
        self.json.get(HEAD.len()..).unwrap_or_default()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            json: self.json.len(),
            contents: self.contents.len(),
            contents_bytes: self.contents_bytes,
            count: self.count,
        }
    }

    /// Removes what was added since.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.json.truncate(mark.json);
        self.count = mark.count;
        self.contents.truncate(mark.contents);
        self.contents_bytes = mark.contents_bytes;
    }

    /// Begins a command; the caller appends further properties, each after a comma, and a brace.
    pub(crate) fn begin(&mut self, kind: &str, id: &str) -> &mut Vec<u8> {
        match self.count {
            0 if self.json.is_empty() => self.json.extend_from_slice(HEAD),
            0 => {}
            _ => self.json.push(b','),
        }
        self.count += 1;
        self.json.extend_from_slice(b"{\"Type\":\"");
        self.json.extend_from_slice(kind.as_bytes());
        self.json.extend_from_slice(b"\",\"Id\":");
        write_json_string(id, &mut self.json);
        &mut self.json
    }

    /// Deletes a document.
    pub(crate) fn delete(&mut self, id: &str) {
        self.begin("DELETE", id).push(b'}');
    }

    /// Deletes all documents whose ids begin with this.
    pub(crate) fn delete_prefix(&mut self, prefix: &str) {
        self.begin("DELETE", prefix).extend_from_slice(b",\"IdPrefixed\":true}");
    }

    /// Deletes an attachment.
    pub(crate) fn delete_attachment(&mut self, id: &str, name: &str) {
        let json = self.begin("AttachmentDELETE", id);
        json.extend_from_slice(b",\"Name\":");
        write_json_string(name, json);
        json.extend_from_slice(b",\"FromEtl\":true}");
    }

    /// Puts an attachment.
    pub(crate) fn put_attachment(
        &mut self,
        id: &str,
        name: &str,
        content_type: &str,
        content: Vec<u8>,
    ) {
        let json = self.begin("AttachmentPUT", id);
        json.extend_from_slice(b",\"Name\":");
        write_json_string(name, json);
        json.extend_from_slice(b",\"ContentType\":");
        write_json_string(content_type, json);
        json.extend_from_slice(b",\"FromEtl\":true}");
        self.contents_bytes += content.len();
        self.contents.push(content);
    }

    /// The request. With attachments it has several parts, which this text separates: it must not be in any of them.
    pub fn into_request(self, boundary: &str) -> RequestBody {
        let Self { mut json, contents, contents_bytes, .. } = self;
        if json.is_empty() {
            json.extend_from_slice(HEAD);
        }
        json.extend_from_slice(b"]}");
        if contents.is_empty() {
            return RequestBody { content_type: "application/json".to_owned(), bytes: json };
        }
        let mut bytes = Vec::with_capacity(json.len() + contents_bytes + 256);
        let begin = format!("--{boundary}\r\n");
        bytes.extend_from_slice(begin.as_bytes());
        bytes.extend_from_slice(b"Content-Type: application/json\r\n\r\n");
        bytes.extend_from_slice(&json);
        bytes.extend_from_slice(b"\r\n");
        for content in contents {
            bytes.extend_from_slice(begin.as_bytes());
            bytes.extend_from_slice(b"Command-Type: AttachmentStream\r\n\r\n");
            bytes.extend_from_slice(&content);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        RequestBody { content_type: format!("multipart/mixed; boundary=\"{boundary}\""), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_follow_the_commands() {
        let mut list = CommandList::default();
        list.delete("a\"b");
        let mark = list.mark();
        list.put_attachment("x", "y", "z", b"gone".to_vec());
        list.cut(mark);
        list.delete_prefix("a/b/");
        let json = r#"{"Commands":[{"Type":"DELETE","Id":"a\"b"},{"Type":"DELETE","Id":"a/b/","IdPrefixed":true}]}"#;
        let request = list.into_request("B");
        assert_eq!(request.content_type, "application/json");
        assert_eq!(String::from_utf8(request.bytes).unwrap(), json);
        let mut list = CommandList::default();
        list.put_attachment("d/1", "n", "text/plain", b"hello".to_vec());
        assert_eq!(list.len(), 1);
        let request = list.into_request("B");
        assert_eq!(request.content_type, "multipart/mixed; boundary=\"B\"");
        let text = String::from_utf8(request.bytes).unwrap();
        let parts: Vec<&str> = text.split("--B").collect();
        assert_eq!(parts[2], "\r\nCommand-Type: AttachmentStream\r\n\r\nhello\r\n");
        assert_eq!(parts[3], "--\r\n");
    }
}
