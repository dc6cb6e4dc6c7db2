import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

import { LANGUAGES, copyAs, curl } from "./copyAs";
import { parse } from "./json";

const hostile = `from Orders where Name = 'O\\'Brien' and x = $a // "$(touch x)" \`y\``;
const of = {
  serverUrl: "http://127.0.0.1:8080",
  database: "it's a shop",
  query: hostile,
  parameters: parse('{"a":["x",1,true,null],"b":{"c":1.50}}'),
};

it("writes a command that a shell passes on unchanged", () => {
  const command = copyAs("HTTP", of).replace(/^curl/, "printf '%s\\n'");
  const words = execFileSync("sh", ["-c", command], { encoding: "utf8" }).trimEnd().split("\n");
  expect(words[2]).toBe("http://127.0.0.1:8080/databases/it's%20a%20shop/queries");
  expect(JSON.parse(words[6] ?? "")).toEqual({ Query: hostile, QueryParameters: { a: ["x", 1, true, null], b: { c: 1.5 } } });
});

it("writes requests without a body as they are", () => {
  expect(curl("http://x", "GET", "/databases", undefined)).toBe("curl 'http://x/databases'");
});

it("sets every parameter in every language", () => {
  const shown = Object.fromEntries(LANGUAGES.map((language) => [language, copyAs(language, of)]));
  expect(shown["Node.js"]).toContain('.addParameter("a", ["x", 1, true, null])');
  expect(shown.Python).toContain('query.add_parameter("a", ["x", 1, True, None])');
  expect(shown.Java).toContain('.addParameter("a", java.util.List.of("x", 1L, true, null))');
  expect(shown["C#"]).toContain('.AddParameter("b", new Dictionary<string, object> { ["c"] = 1.50 })');
  for (const text of Object.values(shown)) expect(text).toContain("O\\\\");
});

it("writes Python and JavaScript that parse", () => {
  execFileSync("python3", ["-c", "import ast,sys; ast.parse(sys.stdin.read())"], { input: copyAs("Python", of) });
  execFileSync("node", ["--input-type=module", "--check"], { input: copyAs("Node.js", of) });
});

it("leaves out parameters that are not there", () => {
  expect(copyAs("HTTP", { ...of, parameters: undefined })).not.toContain("QueryParameters");
});
