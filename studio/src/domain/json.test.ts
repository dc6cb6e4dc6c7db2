import { describe, expect, it } from "vitest";

import { JsonSyntaxError, compact, member, parse, print, same, text, withMember, without } from "./json";

describe("parse and print", () => {
  it("keep the text of numbers, the order and repeated names", () => {
    for (const source of [
      '{"b":1.10,"a":123456789012345678901234567890,"a":-0,"c":1E+2}',
      '[true,false,null,"\\u0000\\"\\\\ü",[],{}]',
      '""',
      "-1.5e-7",
    ]) {
      const again = compact(parse(source));
      expect(JSON.parse(again)).toEqual(JSON.parse(source));
      expect(compact(parse(print(parse(source))))).toBe(again);
    }
    expect(compact(parse('{"b":1.10,"a":12345678901234567890}'))).toBe('{"b":1.10,"a":12345678901234567890}');
  });

  it("refuse what is no JSON, and say where", () => {
    const table: [string, number][] = [
      ["", 0],
      ["{", 1],
      ['{"a":1,}', 7],
      ["[1 2]", 3],
      ["01", 0],
      ["1.", 0],
      ["nul", 0],
      ['"a\nb"', 0],
      ["{} x", 3],
      ["{'a':1}", 1],
    ];
    for (const [source, at] of table) {
      let error: unknown;
      try {
        parse(source);
      } catch (caught) {
        error = caught;
      }
      expect(error, source).toBeInstanceOf(JsonSyntaxError);
      expect((error as JsonSyntaxError).at, source).toBe(at);
      expect(() => JSON.parse(source), source).toThrow();
    }
    expect(() => parse("[".repeat(1000))).toThrow(/levels/);
  });

  it("put short arrays on one line", () => {
    expect(print(parse('{"a":[1,2],"b":[{"c":1}]}'))).toBe(
      '{\n  "a": [1, 2],\n  "b": [\n    {\n      "c": 1\n    }\n  ]\n}',
    );
  });
});

describe("members", () => {
  const json = parse('{"a":1,"b":"x","a":2}');
  it("are found, removed and replaced", () => {
    expect(member(json, "a")).toEqual({ kind: "word", text: "2" });
    expect(text(member(json, "b"))).toBe("x");
    expect(compact(without(json, new Set(["a"])))).toBe('{"b":"x"}');
    expect(compact(withMember(json, "c", parse("[]")))).toBe('{"a":1,"b":"x","a":2,"c":[]}');
    expect(compact(withMember(json, "b", parse("0")))).toBe('{"a":1,"b":0,"a":2}');
  });

  it("are the same in any order", () => {
    expect(same(parse('{"a":1,"b":[1]}'), parse('{"b":[1],"a":1}'))).toBe(true);
    expect(same(parse('{"a":1}'), parse('{"a":1,"b":1}'))).toBe(false);
    expect(same(parse("1.0"), parse("1"))).toBe(false);
    expect(same(parse("[1,2]"), parse("[2,1]"))).toBe(false);
    expect(same(undefined, undefined)).toBe(true);
  });
});
