/** What to try first: queries over the collections that are there. */

import { useCollections } from "../../shell/data";

export function QueryGuide({ database, onUse }: { database: string; onUse: (query: string) => void }) {
  const collections = useCollections(database).data?.Collections ?? {};
  const names = Object.entries(collections)
    .filter(([name, count]) => count > 0 && !name.startsWith("@"))
    .sort(([, one], [, other]) => other - one)
    .map(([name]) => name);
  const examples = examplesFor(names);
  return (
    <div className="query-guide">
      <h2>Begin with one of these</h2>
      <p className="soft">
        A query reads a collection or an index. Conditions that no index can answer create one automatically, so the second
        query is fast. Press Ctrl+Space for completion and Ctrl+Enter to run.
      </p>
      <ul>
        {examples.map(([query, about]) => (
          <li key={query}>
            <button type="button" onClick={() => onUse(query)}>
              <code>{query}</code>
              <span className="soft">{about}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Queries for the sample data where it is there, otherwise for the largest collection. */
function examplesFor(names: string[]): [string, string][] {
  const has = (...wanted: string[]) => wanted.every((name) => names.includes(name));
  if (has("Orders", "Products", "Employees", "Companies")) {
    return [
      ["from Orders where ShipTo.Country = 'Sweden' order by Freight as double desc", "Conditions on nested properties, and an order"],
      ["from Orders group by Company order by count() as long desc select key() as Company, count() as Orders", "Groups: who orders most often"],
      ["from Orders as o load o.Company as c select { Customer: c.Name, Lines: o.Lines.length, Freight: o.Freight }", "Related documents, in a projection"],
      ["from Employees where search(Notes, 'degree psychology')", "Words in texts"],
      ["from index 'Orders/Totals' order by Total as double desc", "An index that computes"],
      ["from Orders where spatial.within(spatial.point(ShipTo.Location.Latitude, ShipTo.Location.Longitude), spatial.circle(500, 59.3, 18.1)) ", "Orders within 500 km of Stockholm"],
      ["from Products where startsWith(Name, 'B') include Supplier, timings()", "Included documents, and where the time goes"],
    ];
  }
  const [first] = names;
  if (first === undefined) return [["from @all_docs", "Every document, once there are some"]];
  const name = /^\w+$/.test(first) ? first : `'${first.replaceAll("'", "\\'")}'`;
  return [
    [`from ${name}`, "Every document of the largest collection"],
    [`from ${name} order by id() limit 10`, "The first ten by id"],
    ["from @all_docs where id() = ''", "By id"],
  ];
}
