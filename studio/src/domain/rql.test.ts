import { expect, it } from "vitest";

import { clauseBefore, errorPosition, parametersOf, sourceOf, withoutUpdate } from "./rql";

it("knows which clause comes last", () => {
  const table: [string, string][] = [
    ["", ""],
    ["from Orders ", "from"],
    ["from Orders where Name = 'order by' ", "where"],
    ["from Orders\norder   by Name", "order by"],
    ["from Orders // where\n", "from"],
    ["from Orders group by Company select ", "select"],
  ];
  for (const [text, clause] of table) expect(clauseBefore(text), text).toBe(clause);
});

it("finds what a query reads", () => {
  expect(sourceOf("from Orders as o where o.x = 1")).toEqual({ kind: "collection", name: "Orders" });
  expect(sourceOf("from index 'Orders/ByCompany'")).toEqual({ kind: "index", name: "Orders/ByCompany" });
  expect(sourceOf('from "a\\"b"')).toEqual({ kind: "collection", name: 'a"b' });
  expect(sourceOf("declare function f(x) { return x; }\nfrom @all_docs select f(x)")?.name).toBe("@all_docs");
  expect(sourceOf("select x")).toBeUndefined();
});

it("turns the place of an error into an offset", () => {
  expect(errorPosition("from Orders wher Freight", "1:18 Expected end")).toBe(17);
  expect(errorPosition("from Orders\nwher x", "2:6 Expected")).toBe(17);
  expect(errorPosition("x", "1:900 Expected")).toBe(1);
  expect(errorPosition("x", "9:1 Expected")).toBeUndefined();
  expect(errorPosition("x", "There is no index 1:1")).toBeUndefined();
});

it("lists parameters once, and none in texts", () => {
  expect(parametersOf("from X where a = $p and b = '$q' and c in ($r, $p) // $s")).toEqual(["p", "r"]);
});

it("cuts off what a query changes", () => {
  expect(withoutUpdate("from X where a = 1 update { this.b = 2 }")).toBe("from X where a = 1");
  expect(withoutUpdate("from X where a = 'update {'")).toBeUndefined();
  expect(withoutUpdate("from X where update = 1")).toBeUndefined();
});
