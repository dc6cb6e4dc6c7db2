/**
 * JSON that keeps what JavaScript would lose: numbers stay the text that they are (20 digits, `1.10`), properties keep
 * their order, and a property that is there twice stays there twice.
 */

export type Json =
  | { kind: "object"; members: Member[] }
  | { kind: "array"; items: Json[] }
  | { kind: "string"; value: string }
  /** A number, `true`, `false` or `null`, as it was written. */
  | { kind: "word"; text: string };

export interface Member {
  name: string;
  value: Json;
}

/** Text that is no JSON, with the place where it stops being it. */
export class JsonSyntaxError extends Error {
  /** Offset in UTF-16 units. */
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.name = "JsonSyntaxError";
    this.at = at;
  }
}

/** The server refuses deeper documents. */
const DEPTH_MAX = 256;

/** @throws {JsonSyntaxError} when the text is no JSON. */
export function parse(text: string): Json {
  const parser = new Parser(text);
  const value = parser.value(0);
  parser.end();
  return value;
}

/** The text with two spaces per level; short arrays of plain values on one line. */
export function print(json: Json, indent = ""): string {
  const inner = `${indent}  `;
  switch (json.kind) {
    case "word":
      return json.text;
    case "string":
      return JSON.stringify(json.value);
    case "array": {
      if (json.items.length === 0) return "[]";
      const flat = json.items.every((item) => item.kind === "word" || item.kind === "string");
      const line = flat ? `[${json.items.map((item) => print(item)).join(", ")}]` : "";
      if (flat && line.length + indent.length <= 80) return line;
      return `[\n${json.items.map((item) => inner + print(item, inner)).join(",\n")}\n${indent}]`;
    }
    case "object": {
      if (json.members.length === 0) return "{}";
      const lines = json.members.map(({ name, value }) => `${inner}${JSON.stringify(name)}: ${print(value, inner)}`);
      return `{\n${lines.join(",\n")}\n${indent}}`;
    }
  }
}

/** The text without spaces. */
export function compact(json: Json): string {
  switch (json.kind) {
    case "word":
      return json.text;
    case "string":
      return JSON.stringify(json.value);
    case "array":
      return `[${json.items.map(compact).join(",")}]`;
    case "object":
      return `{${json.members.map(({ name, value }) => `${JSON.stringify(name)}:${compact(value)}`).join(",")}}`;
  }
}

/** The member of an object; the last one of that name, as the server takes it. */
export function member(json: Json | undefined, name: string): Json | undefined {
  return json?.kind === "object" ? json.members.findLast((one) => one.name === name)?.value : undefined;
}

/** The items of an array, none for anything else. */
export function items(json: Json | undefined): Json[] {
  return json?.kind === "array" ? json.items : [];
}

/** The text of a string, undefined for anything else. */
export function text(json: Json | undefined): string | undefined {
  return json?.kind === "string" ? json.value : undefined;
}

/** As JavaScript sees it: large numbers are rounded. */
export function plain<T>(json: Json): T {
  return JSON.parse(compact(json)) as T;
}

export const nothing: Json = { kind: "word", text: "null" };

export function fromText(value: string): Json {
  return { kind: "string", value };
}

/** The object with these members removed. */
export function without(json: Json, names: ReadonlySet<string>): Json {
  return json.kind === "object" ? { kind: "object", members: json.members.filter((one) => !names.has(one.name)) } : json;
}

/** The object with the member replaced in its place, or added at the end. */
export function withMember(json: Json, name: string, value: Json): Json {
  if (json.kind !== "object") return json;
  const there = json.members.some((one) => one.name === name);
  const members = there
    ? json.members.map((one) => (one.name === name ? { name, value } : one))
    : [...json.members, { name, value }];
  return { kind: "object", members };
}

/** Whether both mean the same: the order of properties does not count, the text of numbers does. */
export function same(one: Json | undefined, other: Json | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  if (one.kind === "word" && other.kind === "word") return one.text === other.text;
  if (one.kind === "string" && other.kind === "string") return one.value === other.value;
  if (one.kind === "array" && other.kind === "array") {
    return one.items.length === other.items.length && one.items.every((item, at) => same(item, other.items[at]));
  }
  if (one.kind === "object" && other.kind === "object") {
    return (
      one.members.length === other.members.length &&
      one.members.every(({ name, value }) => same(value, member(other, name)))
    );
  }
  return false;
}

class Parser {
  private at = 0;

  constructor(private readonly source: string) {}

  value(depth: number): Json {
    if (depth > DEPTH_MAX) throw this.error(`More than ${DEPTH_MAX} levels`);
    this.skipSpace();
    switch (this.source[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return { kind: "string", value: this.string() };
      default:
        return { kind: "word", text: this.word() };
    }
  }

  end(): void {
    this.skipSpace();
    if (this.at < this.source.length) throw this.error("Something follows the end");
  }

  private object(depth: number): Json {
    const members: Member[] = [];
    this.at += 1;
    if (this.takes("}")) return { kind: "object", members };
    do {
      this.skipSpace();
      if (this.source[this.at] !== '"') throw this.error("A property name in quotes is expected");
      const name = this.string();
      if (!this.takes(":")) throw this.error("A colon is expected");
      members.push({ name, value: this.value(depth + 1) });
    } while (this.takes(","));
    if (!this.takes("}")) throw this.error("A comma or a closing brace is expected");
    return { kind: "object", members };
  }

  private array(depth: number): Json {
    const items: Json[] = [];
    this.at += 1;
    if (this.takes("]")) return { kind: "array", items };
    do items.push(this.value(depth + 1));
    while (this.takes(","));
    if (!this.takes("]")) throw this.error("A comma or a closing bracket is expected");
    return { kind: "array", items };
  }

  private string(): string {
    const found = match(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y, this.source, this.at);
    if (found === undefined) throw this.error("A string is not closed, or has an invalid character");
    this.at += found.length;
    return JSON.parse(found) as string;
  }

  private word(): string {
    const word = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])/y;
    const found = match(word, this.source, this.at);
    if (found === undefined) throw this.error("A value is expected");
    this.at += found.length;
    return found;
  }

  private takes(character: string): boolean {
    this.skipSpace();
    if (this.source[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private skipSpace(): void {
    this.at += match(/[ \t\r\n]*/y, this.source, this.at)?.length ?? 0;
  }

  private error(message: string): JsonSyntaxError {
    return new JsonSyntaxError(message, Math.min(this.at, this.source.length));
  }
}

function match(pattern: RegExp, source: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0];
}
