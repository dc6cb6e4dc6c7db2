/** Which properties a list of documents shows. */

import { Popover } from "@base-ui/react/popover";

import { Button, Check } from "../../components/controls";

interface ColumnChooserProps {
  available: string[];
  chosen: string[];
  onChoose: (names: string[]) => void;
}

export function ColumnChooser({ available, chosen, onChoose }: ColumnChooserProps) {
  const toggle = (name: string, isShown: boolean) =>
    onChoose(isShown ? available.filter((one) => one === name || chosen.includes(one)) : chosen.filter((one) => one !== name));
  return (
    <Popover.Root>
      <Popover.Trigger render={<Button kind="quiet" icon="columns" label="Columns" />} />
      <Popover.Portal>
        <Popover.Positioner className="menu-positioner" sideOffset={4} align="end">
          <Popover.Popup className="menu column-chooser" aria-label="Columns">
            {available.length === 0 && <div className="soft">There are no properties to choose from.</div>}
            {available.map((name) => (
              <Check key={name} label={name} checked={chosen.includes(name)} onChange={(isShown) => toggle(name, isShown)} />
            ))}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}
