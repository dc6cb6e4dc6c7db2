/** How long each step of a query took, each as a part of the whole. */

import type { Timings } from "../../api/queries";
import { duration } from "../../domain/units";

interface Step {
  name: string;
  depth: number;
  milliseconds: number;
}

export function TimingsView({ timings }: { timings: Timings }) {
  const steps = stepsOf("The whole query", timings, 0);
  const whole = Math.max(1, timings.DurationInMs);
  return (
    <table className="plain-table timings">
      <thead>
        <tr>
          <th>Step</th>
          <th className="end">Time</th>
          <th>Share</th>
        </tr>
      </thead>
      <tbody>
        {steps.map((step, at) => (
          <tr key={at}>
            <td style={{ paddingLeft: 12 + step.depth * 20 }}>{step.name}</td>
            <td className="end">{duration(step.milliseconds)}</td>
            <td>
              <div className="progress" role="img" aria-label={`${Math.round((step.milliseconds / whole) * 100)} %`}>
                <div className="bar" style={{ width: `${Math.min(100, (step.milliseconds / whole) * 100)}%` }} />
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function stepsOf(name: string, timings: Timings, depth: number): Step[] {
  const inner = Object.entries(timings.Timings ?? {}).flatMap(([child, of]) => stepsOf(child, of, depth + 1));
  return [{ name, depth, milliseconds: timings.DurationInMs }, ...inner];
}
