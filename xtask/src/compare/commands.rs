//! Random batches of commands, which change documents, and random reads of documents.

use serde_json::{Value, json};

use super::{
    answers::Shown,
    case::{Case, Dice, Exchange},
    documents::id,
};

/// A batch with the reads after it, or one read.
pub(super) struct Commands {
    commands: Vec<Value>,
    reads: Vec<String>,
}

/// Any batch or read.
pub(super) fn any(dice: &mut Dice) -> Commands {
    if dice.once_in(2) {
        return Commands { commands: Vec::new(), reads: vec![read(dice)] };
    }
    let ids: Vec<_> = (0..=dice.below(3)).map(|_| changed_id(dice)).collect();
    let commands = ids.iter().map(|id| command(dice, id)).collect();
    let reads = ids.iter().map(|id| format!("/docs?id={id}")).collect();
    Commands { commands, reads }
}

fn changed_id(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("others/{}", dice.below(5)),
        _ => id(dice),
    }
}

fn command(dice: &mut Dice, id: &str) -> Value {
    match dice.below(6) {
        0 => json!({"Id": id, "Type": "DELETE", "ChangeVector": null}),
        1 => {
            let script = dice.of(&[
                "this.N = this.N + 1;",
                "this.Added = args.v;",
                "del('others/1');",
                "throw 'x';",
            ]);
            let patch = json!({"Script": script, "Values": {"v": dice.below(9)}});
            json!({"Id": id, "Type": "PATCH", "ChangeVector": null, "Patch": patch})
        }
        2 => {
            json!({"Id": id, "Type": "PUT", "ChangeVector": "A:1-AAAAAAAAAAAAAAAAAAAAAA", "Document": {"N": 1}})
        }
        _ => {
            let metadata = match dice.below(3) {
                0 => json!({}),
                1 => json!({"@collection": "Others"}),
                _ => json!({"@collection": "Things", "Mine": dice.below(3)}),
            };
            let document =
                json!({"N": dice.below(9), "S": dice.of(&["red", "x"]), "@metadata": metadata});
            json!({"Id": id, "Type": "PUT", "ChangeVector": null, "Document": document})
        }
    }
}

fn read(dice: &mut Dice) -> String {
    match dice.below(7) {
        0 => format!("/docs?id={}", id(dice)),
        1 => format!("/docs?id={}&id={}&include=R", id(dice), id(dice)),
        2 => format!("/docs?id={}&metadataOnly=true", id(dice)),
        3 => format!("/docs?startsWith=items/{}&pageSize={}", dice.below(4), dice.below(9)),
        4 => format!(
            "/docs?startsWith=items/&matches={}&start={}",
            dice.of(&["1*", "%3F", "*3", "2%3F%7C4*"]),
            dice.below(3)
        ),
        5 => {
            format!("/docs?startsWith=items/&exclude={}&pageSize=5", dice.of(&["1*", "%3F", "*3"]))
        }
        _ => format!("/docs?startsWith=items/&startAfter={}&pageSize=4", id(dice)),
    }
}

impl Case for Commands {
    fn kind(&self) -> &'static str {
        "commands and reads"
    }

    fn text(&self) -> String {
        let commands = json!(self.commands).to_string();
        format!(
            "{} {}",
            if self.commands.is_empty() { "GET" } else { &commands },
            self.reads.join(" ")
        )
    }

    fn exchanges(&self) -> Vec<Exchange> {
        let mut exchanges = Vec::new();
        if !self.commands.is_empty() {
            let body = Some(json!({"Commands": self.commands}));
            let path = "/bulk_docs".to_owned();
            exchanges.push(Exchange { method: "POST", path, body, shown: Shown::All });
        }
        let read = |path: &String| Exchange {
            method: "GET",
            path: path.clone(),
            body: None,
            shown: Shown::All,
        };
        exchanges.extend(self.reads.iter().map(read));
        exchanges
    }

    fn smaller(&self) -> Vec<Box<dyn Case>> {
        // A batch that is sent again would meet other documents.
        Vec::new()
    }

    fn changes_documents(&self) -> bool {
        !self.commands.is_empty()
    }
}
