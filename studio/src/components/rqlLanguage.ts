/** RQL for editors: its words, and what may come next. */

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { LanguageSupport, StreamLanguage } from "@codemirror/language";
import type { Extension } from "@codemirror/state";

import { CLAUSES, FUNCTIONS, KEYWORDS, clauseBefore, sourceOf } from "../domain/rql";

const keywords = new Set(KEYWORDS);

const language = StreamLanguage.define<{ inComment: boolean }>({
  name: "rql",
  startState: () => ({ inComment: false }),
  token(stream, state) {
    if (state.inComment) {
      if (stream.match(/.*?\*\//)) state.inComment = false;
      else stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) {
      state.inComment = true;
      return "comment";
    }
    if (stream.match(/\/\/.*|--.*/)) return "comment";
    if (stream.match(/'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/\$[\w]+/)) return "atom";
    if (stream.match(/-?\d+(?:\.\d+)?/)) return "number";
    const word = stream.match(/[@A-Za-z_][\w]*/) as RegExpMatchArray | null;
    if (word) {
      if (keywords.has(word[0].toLowerCase())) return "keyword";
      return stream.match(/\s*\(/, false) ? "propertyName" : null;
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "//" }, closeBrackets: { brackets: ["(", "[", "{", "'", '"'] } },
});

export interface RqlNames {
  collections: string[];
  indexes: string[];
  /** Names of the properties of a collection. */
  fields: (collection: string) => Promise<string[]>;
}

export function rql(): LanguageSupport {
  return new LanguageSupport(language);
}

/** Completion with the names of a database. */
export function rqlCompletion(names: () => RqlNames): Extension {
  return language.data.of({ autocomplete: (context: CompletionContext) => complete(context, names()) });
}

async function complete(context: CompletionContext, names: RqlNames): Promise<CompletionResult | null> {
  const word = context.matchBefore(/['"]?[@\w./-]*/);
  if (!word || (word.from === word.to && !context.explicit)) return null;
  const before = context.state.doc.sliceString(0, word.from);
  const clause = clauseBefore(before);
  const options = await optionsFor(clause, before, context.state.doc.toString(), names);
  return { from: word.from, options, validFor: /^['"]?[@\w./-]*$/ };
}

async function optionsFor(clause: string, before: string, query: string, names: RqlNames): Promise<Completion[]> {
  const keyword = (label: string): Completion => ({ label, type: "keyword" });
  if (clause === "" || /^\s*$/.test(before)) return [keyword("from"), keyword("from index"), keyword("declare function")];
  if (/\bfrom\s+index\s+$/i.test(before)) {
    return names.indexes.map((name) => ({ label: `'${name.replaceAll("'", "\\'")}'`, type: "class", detail: "index" }));
  }
  if (/\bfrom\s+$/i.test(before)) {
    const quoted = (name: string) => (/^\w+$/.test(name) ? name : `'${name.replaceAll("'", "\\'")}'`);
    return [
      ...names.collections.map((name) => ({ label: quoted(name), type: "class", detail: "collection" })),
      { label: "@all_docs", type: "class", detail: "all documents" },
      keyword("index"),
    ];
  }
  const from = sourceOf(query);
  const fields = from?.kind === "collection" ? await names.fields(from.name).catch(() => []) : [];
  return [
    ...fields.map((label) => ({ label, type: "property", boost: 2 })),
    ...FUNCTIONS.map(({ name, about }) => ({ label: name, apply: `${name}(`, type: "function", detail: about })),
    ...CLAUSES.map(keyword),
  ];
}
