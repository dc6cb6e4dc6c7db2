/** What was read, skipped and refused, by kind. */

import { type SmugglerResult, sectionsOf } from "../../api/smuggler";
import { Badge } from "../../components/controls";
import { number } from "../../domain/units";

const NAMES: Record<string, string> = {
  DatabaseRecord: "Configuration",
  RevisionDocuments: "Revisions",
  TimeSeries: "Time series",
  CompareExchange: "Compare exchange values",
};

export function TransferResult({ result }: { result: SmugglerResult | null | undefined }) {
  const sections = sectionsOf(result);
  const messages = result?.Messages ?? [];
  const problems = messages.filter((message) => /\b(WARN|ERROR)\b/.test(message));
  if (sections.length === 0) return null;
  return (
    <>
      <table className="plain-table">
        <thead>
          <tr>
            <th>What</th>
            <th className="end">Read</th>
            <th className="end">Skipped</th>
            <th className="end">Failed</th>
          </tr>
        </thead>
        <tbody>
          {sections.map(([name, section]) => (
            <tr key={name}>
              <td>{NAMES[name] ?? name}</td>
              <td className="end">{number(section.ReadCount)}</td>
              <td className="end">{number(section.SkippedCount ?? 0)}</td>
              <td className="end">{section.ErroredCount > 0 ? <Badge tone="bad">{number(section.ErroredCount)}</Badge> : 0}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {problems.length > 0 && (
        <details open>
          <summary>What could not be used</summary>
          <pre className="messages">{problems.join("\n")}</pre>
        </details>
      )}
      {messages.length > 0 && (
        <details>
          <summary>Messages</summary>
          <pre className="messages">{messages.join("\n")}</pre>
        </details>
      )}
    </>
  );
}
