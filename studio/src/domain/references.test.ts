import { expect, it } from "vitest";

import { parse } from "./json";
import { idsIn } from "./references";

it("finds what looks like an id, once each", () => {
  const json = parse(
    '{"Company":"companies/1-A","Lines":[{"Product":"products/2-A"},{"Product":"products/2-A"}],"Url":"https://x/y","Path":"/a/b","@metadata":{"@id":"orders/1"}}',
  );
  expect(idsIn(json)).toEqual([
    { id: "companies/1-A", path: "Company" },
    { id: "products/2-A", path: "Lines.Product" },
  ]);
});
