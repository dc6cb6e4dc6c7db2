/** What an index contains, field by field. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type IndexDefinition, indexes } from "../../api/indexes";
import { Problem, Skeleton } from "../../components/controls";

export function TermsPanel({ database, definition }: { database: string; definition: IndexDefinition }) {
  const [chosen, setChosen] = useState<string>();
  const fields = useQuery({
    queryKey: ["index", database, "fields", definition.Name],
    queryFn: ({ signal }) => indexes.entryFields(database, definition.Name, signal),
  });
  const field = chosen ?? fields.data?.[0];
  const terms = useQuery({
    queryKey: ["index", database, "terms", definition.Name, field],
    queryFn: ({ signal }) => indexes.terms(database, definition.Name, field ?? "", signal),
    enabled: field !== undefined,
  });
  if (fields.error) return <Problem error={fields.error} doing="Loading the fields" />;
  if (fields.isPending) return <Skeleton width={240} />;
  if (fields.data.length === 0) return <p className="soft">The index has no fields: it has no entries yet.</p>;
  return (
    <div className="stack">
      <label className="row">
        Field
        <select className="input" style={{ width: 240 }} value={field} onChange={(event) => setChosen(event.target.value)}>
          {fields.data.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {terms.error && <Problem error={terms.error} doing="Loading the terms" />}
      {terms.data && (
        <>
          <p className="faint small">
            {terms.data.length >= 200 ? "The first 200 terms" : `${terms.data.length} terms`}, as conditions are compared with them
          </p>
          <ul className="terms">
            {terms.data.map((term) => (
              <li key={term}>
                <code>{term === "" ? "(empty)" : term}</code>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
