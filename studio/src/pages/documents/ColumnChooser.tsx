/** Which properties a list of documents shows. */

import { Popover } from "@base-ui/react/popover";

import { useState } from "react";

import { Button, Check } from "../../components/controls";

/** Fewer need no filter. */
const FILTERED_MIN = 12;
/** More are found by the filter. */
const SHOWN_MAX = 100;

interface ColumnChooserProps {
  available: string[];
  chosen: string[];
  onChoose: (names: string[]) => void;
}

export function ColumnChooser({ available, chosen, onChoose }: ColumnChooserProps) {
  const [filter, setFilter] = useState("");
  const matching = available.filter((name) => name.toLowerCase().includes(filter.toLowerCase()));
  const toggle = (name: string, isShown: boolean) =>
    onChoose(isShown ? available.filter((one) => one === name || chosen.includes(one)) : chosen.filter((one) => one !== name));
  return (
    <Popover.Root>
      <Popover.Trigger render={<Button kind="quiet" icon="columns" label="Columns" />} />
      <Popover.Portal>
        <Popover.Positioner className="menu-positioner" sideOffset={4} align="end">
          <Popover.Popup className="menu column-chooser" aria-label="Columns">
            {available.length === 0 && <div className="soft">There are no properties to choose from.</div>}
            {available.length > FILTERED_MIN && (
              <input className="input" aria-label="Filter columns" placeholder="Filter" value={filter} onChange={(event) => setFilter(event.target.value)} />
            )}
            {matching.slice(0, SHOWN_MAX).map((name) => (
              <Check key={name} label={name} checked={chosen.includes(name)} onChange={(isShown) => toggle(name, isShown)} />
            ))}
            {matching.length > SHOWN_MAX && <div className="faint small">and {matching.length - SHOWN_MAX} more</div>}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}
