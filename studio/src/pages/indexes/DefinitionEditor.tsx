/** The parts of an index definition. */

import type { IndexDefinition, IndexField } from "../../api/indexes";
import { CodeEditor } from "../../components/CodeEditor";
import { Button } from "../../components/controls";

interface DefinitionEditorProps {
  definition: IndexDefinition;
  readOnly: boolean;
  onChange: (definition: IndexDefinition) => void;
  onSave: () => void;
}

export function DefinitionEditor({ definition, readOnly, onChange, onSave }: DefinitionEditorProps) {
  const { Maps: maps, Reduce: reduce } = definition;
  const language = /^\s*(?:map|groupBy|timeSeries|counters)\s*[(.]/.test(maps[0] ?? "") ? "javascript" : "csharp";
  const setMap = (at: number, map: string) => onChange({ ...definition, Maps: maps.map((one, place) => (place === at ? map : one)) });
  return (
    <div className="stack definition">
      {maps.map((map, at) => (
        <section key={at} className="stack">
          <div className="spread">
            <h2>{maps.length === 1 ? "Map" : `Map ${at + 1}`}</h2>
            {!readOnly && maps.length > 1 && (
              <Button small kind="quiet" icon="trash" label={`Remove map ${at + 1}`} onClick={() => onChange({ ...definition, Maps: maps.filter((_, place) => place !== at) })} />
            )}
          </div>
          <CodeEditor className="map" value={map} onChange={(text) => setMap(at, text)} language={language} label={`Map ${at + 1}`} readOnly={readOnly} onSave={onSave} />
        </section>
      ))}
      {!readOnly && maps.every((map) => map.trim() === "") && (
        <p className="soft">
          What is stored for each document, in C# or JavaScript, for example{" "}
          <code>{"from order in docs.Orders select new { order.Company, Total = order.Lines.Sum(line => line.Quantity) }"}</code> or{" "}
          <code>{"map('Orders', order => ({ Company: order.Company }))"}</code>
        </p>
      )}
      {!readOnly && (
        <div className="row">
          <Button small icon="plus" onClick={() => onChange({ ...definition, Maps: [...maps, ""] })}>
            Add a map
          </Button>
          {reduce === null && (
            <Button small icon="plus" onClick={() => onChange({ ...definition, Reduce: "" })}>
              Add a reduce
            </Button>
          )}
        </div>
      )}
      {reduce !== null && (
        <section className="stack">
          <div className="spread">
            <h2>Reduce</h2>
            {!readOnly && <Button small kind="quiet" icon="trash" label="Remove the reduce" onClick={() => onChange({ ...definition, Reduce: null })} />}
          </div>
          <CodeEditor className="map" value={reduce} onChange={(text) => onChange({ ...definition, Reduce: text })} language={language} label="Reduce" readOnly={readOnly} onSave={onSave} />
        </section>
      )}
      <FieldsTable fields={definition.Fields} readOnly={readOnly} onChange={(Fields) => onChange({ ...definition, Fields })} />
    </div>
  );
}

interface FieldsTableProps {
  fields: Record<string, IndexField>;
  readOnly: boolean;
  onChange: (fields: Record<string, IndexField>) => void;
}

/** Options of single fields; most need none. */
function FieldsTable({ fields, readOnly, onChange }: FieldsTableProps) {
  const entries = Object.entries(fields);
  const set = (name: string, change: IndexField) => onChange({ ...fields, [name]: { ...fields[name], ...change } });
  const rename = (from: string, to: string) =>
    onChange(Object.fromEntries(entries.map(([name, field]) => [name === from ? to : name, field])));
  return (
    <section className="stack">
      <div className="spread">
        <h2>Fields</h2>
        {!readOnly && (
          <Button small icon="plus" disabled={"" in fields} onClick={() => onChange({ ...fields, "": {} })}>
            Add options for a field
          </Button>
        )}
      </div>
      {entries.length === 0 ? (
        <p className="soft">Every field is indexed as it is. Options make a field full-text searchable, or store its value.</p>
      ) : (
        <table className="plain-table">
          <thead>
            <tr>
              <th>Name</th>
              <th>Indexed</th>
              <th>Stored</th>
              <th>Suggestions</th>
              <th>Analyzer</th>
              <th>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {entries.map(([name, field], at) => (
              <tr key={at}>
                <td>
                  <input className="input" aria-label="Name of the field" readOnly={readOnly} value={name} onChange={(event) => rename(name, event.target.value)} />
                </td>
                <td>
                  <select
                    className="input"
                    aria-label={`How ${name} is indexed`}
                    disabled={readOnly}
                    value={field.Indexing ?? "Default"}
                    onChange={(event) => set(name, { Indexing: event.target.value as "Default" })}
                  >
                    <option value="Default">as one term</option>
                    <option value="Exact">exactly, with case</option>
                    <option value="Search">as words</option>
                    <option value="No">not at all</option>
                  </select>
                </td>
                <td>
                  <input type="checkbox" aria-label={`Store ${name}`} disabled={readOnly} checked={field.Storage === "Yes"} onChange={(event) => set(name, { Storage: event.target.checked ? "Yes" : "No" })} />
                </td>
                <td>
                  <input type="checkbox" aria-label={`Suggestions for ${name}`} disabled={readOnly} checked={field.Suggestions ?? false} onChange={(event) => set(name, { Suggestions: event.target.checked })} />
                </td>
                <td>
                  <input className="input" aria-label={`Analyzer of ${name}`} readOnly={readOnly} value={field.Analyzer ?? ""} onChange={(event) => set(name, { Analyzer: event.target.value || null })} />
                </td>
                <td className="end">
                  {!readOnly && (
                    <Button
                      small
                      kind="quiet"
                      icon="trash"
                      label={`Remove the options of ${name}`}
                      onClick={() => onChange(Object.fromEntries(entries.filter(([other]) => other !== name)))}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
