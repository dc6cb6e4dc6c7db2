/** A query as the program that sends it, in the languages of the client libraries. */

import { type Json, compact, print } from "./json";

export interface QueryToCopy {
  serverUrl: string;
  database: string;
  query: string;
  /** An object; undefined for none. */
  parameters: Json | undefined;
}

export const LANGUAGES = ["HTTP", "Node.js", "Python", "Java", "C#"] as const;
export type Language = (typeof LANGUAGES)[number];

export function copyAs(language: Language, of: QueryToCopy): string {
  switch (language) {
    case "HTTP":
      return http(of);
    case "Node.js":
      return node(of);
    case "Python":
      return python(of);
    case "Java":
      return java(of);
    case "C#":
      return csharp(of);
  }
}

/** Languages with a client library, and how it is installed. */
export const CLIENTS: { language: Exclude<Language, "HTTP">; install: string }[] = [
  { language: "Node.js", install: "npm install ravendb" },
  { language: "Python", install: "pip install ravendb" },
  { language: "Java", install: "net.ravendb:ravendb:6.0.2 (Maven)" },
  { language: "C#", install: "dotnet add package RavenDB.Client" },
];

/** A command for a shell. */
export function curl(origin: string, method: string, url: string, body: string | undefined): string {
  const parts = [`curl ${method === "GET" ? "" : `-X ${method} `}${shell(origin + url)}`];
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `--data-binary ${shell(body)}`);
  return parts.join(" \\\n  ");
}

/** A word of a shell: nothing in it is special. */
function shell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function http({ serverUrl, database, query, parameters }: QueryToCopy): string {
  const body = parameters
    ? `{"Query":${JSON.stringify(query)},"QueryParameters":${compact(parameters)}}`
    : `{"Query":${JSON.stringify(query)}}`;
  return curl(serverUrl, "POST", `/databases/${encodeURIComponent(database)}/queries`, body);
}

const members = (json: Json | undefined): [string, Json][] =>
  json?.kind === "object" ? json.members.map((one) => [one.name, one.value]) : [];

function node({ serverUrl, database, query, parameters }: QueryToCopy): string {
  const sets = members(parameters).map(([name, value]) => `\n  .addParameter(${quoted(name)}, ${print(value)})`);
  return `import { DocumentStore } from "ravendb";

const store = new DocumentStore(${quoted(serverUrl)}, ${quoted(database)});
store.initialize();
const session = store.openSession();
const results = await session.advanced
  .rawQuery(${quoted(query)})${sets.join("")}
  .all();
console.log(results);
store.dispose();
`;
}

function python({ serverUrl, database, query, parameters }: QueryToCopy): string {
  const sets = members(parameters).map(([name, value]) => `\n    query.add_parameter(${quoted(name)}, ${pythonValue(value)})`);
  return `from ravendb import DocumentStore

store = DocumentStore(${quoted(serverUrl)}, ${quoted(database)})
store.initialize()
with store.open_session() as session:
    query = session.advanced.raw_query(${quoted(query)}, dict)${sets.join("")}
    for result in query:
        print(result)
store.close()
`;
}

function java({ serverUrl, database, query, parameters }: QueryToCopy): string {
  const sets = members(parameters).map(
    ([name, value]) => `\n                .addParameter(${quoted(name)}, ${javaValue(value)})`,
  );
  return `import com.fasterxml.jackson.databind.node.ObjectNode;
import net.ravendb.client.documents.DocumentStore;

try (var store = new DocumentStore(${quoted(serverUrl)}, ${quoted(database)})) {
    store.initialize();
    try (var session = store.openSession()) {
        var results = session.advanced()
                .rawQuery(ObjectNode.class, ${quoted(query)})${sets.join("")}
                .toList();
        results.forEach(System.out::println);
    }
}
`;
}

function csharp({ serverUrl, database, query, parameters }: QueryToCopy): string {
  const sets = members(parameters).map(
    ([name, value]) => `\n    .AddParameter(${quoted(name)}, ${csharpValue(value)})`,
  );
  return `using Raven.Client.Documents;

using var store = new DocumentStore
{
    Urls = new[] { ${quoted(serverUrl)} },
    Database = ${quoted(database)}
};
store.Initialize();
using var session = store.OpenSession();
var results = session.Advanced
    .RawQuery<dynamic>(${quoted(query)})${sets.join("")}
    .ToList();
results.ForEach(result => Console.WriteLine(result));
`;
}

/** A string literal that all of these languages read alike: JSON's, without the two line ends that are special to some. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

function pythonValue(value: Json): string {
  switch (value.kind) {
    case "string":
      return quoted(value.value);
    case "word":
      return { true: "True", false: "False", null: "None" }[value.text] ?? value.text;
    case "array":
      return `[${value.items.map(pythonValue).join(", ")}]`;
    case "object":
      return `{${value.members.map((one) => `${quoted(one.name)}: ${pythonValue(one.value)}`).join(", ")}}`;
  }
}

function javaValue(value: Json): string {
  switch (value.kind) {
    case "string":
      return quoted(value.value);
    case "word":
      return wholeNumber(value.text) ? `${value.text}L` : value.text;
    case "array":
      return `java.util.List.of(${value.items.map(javaValue).join(", ")})`;
    case "object":
      return `java.util.Map.of(${value.members.map((one) => `${quoted(one.name)}, ${javaValue(one.value)}`).join(", ")})`;
  }
}

function csharpValue(value: Json): string {
  switch (value.kind) {
    case "string":
      return quoted(value.value);
    case "word":
      return wholeNumber(value.text) ? `${value.text}L` : value.text;
    case "array":
      return `new object[] { ${value.items.map(csharpValue).join(", ")} }`;
    case "object":
      return `new Dictionary<string, object> { ${value.members
        .map((one) => `[${quoted(one.name)}] = ${csharpValue(one.value)}`)
        .join(", ")} }`;
  }
}

function wholeNumber(text: string): boolean {
  return /^-?\d+$/.test(text);
}
