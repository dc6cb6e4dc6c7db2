import { expect, it } from "vitest";

import { compact, parse } from "./json";
import { type Side, merge } from "./merge";

function check(base: string, theirs: string, mine: string, side: Side = "mine") {
  const result = merge(parse(base), parse(theirs), parse(mine), () => side);
  return {
    merged: compact(result.merged),
    conflicts: result.conflicts.map((conflict) => conflict.path.join(".")),
    taken: result.taken.map(({ path, side }) => `${path.join(".")} ${side}`),
  };
}

it("takes what only one side changed", () => {
  expect(check('{"a":1,"b":1,"c":1}', '{"a":2,"b":1,"c":1}', '{"a":1,"b":3,"c":1}')).toEqual({
    merged: '{"a":2,"b":3,"c":1}',
    conflicts: [],
    taken: ["a theirs", "b mine"],
  });
});

it("keeps removals and additions", () => {
  expect(check('{"a":1,"b":1}', '{"b":1,"x":1}', '{"a":1,"b":1,"y":2}').merged).toBe('{"b":1,"y":2,"x":1}');
});

it("asks where both changed the same property", () => {
  const of = (side: Side) => check('{"a":{"b":1,"c":1}}', '{"a":{"b":2,"c":2}}', '{"a":{"b":3,"c":1}}', side);
  expect(of("mine")).toEqual({ merged: '{"a":{"b":3,"c":2}}', conflicts: ["a.b"], taken: ["a.c theirs"] });
  expect(of("theirs").merged).toBe('{"a":{"b":2,"c":2}}');
});

it("does not ask where both changed it alike", () => {
  expect(check('{"a":1}', '{"a":2}', '{"a":2}')).toEqual({ merged: '{"a":2}', conflicts: [], taken: [] });
});

it("treats arrays as one value", () => {
  expect(check('{"a":[1]}', '{"a":[1,2]}', '{"a":[0,1]}').conflicts).toEqual(["a"]);
});

it("lets a removal and a change be a conflict", () => {
  expect(check('{"a":1}', '{}', '{"a":2}', "theirs")).toEqual({ merged: "{}", conflicts: ["a"], taken: [] });
});
