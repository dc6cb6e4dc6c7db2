/** Which kinds of items are transferred. */

import { ITEM_TYPES } from "../../api/smuggler";
import { Check } from "../../components/controls";

export function ItemTypes({ chosen, onChoose }: { chosen: string[]; onChoose: (types: string[]) => void }) {
  return (
    <fieldset className="choices">
      <legend>What</legend>
      {ITEM_TYPES.map(([type, label]) => (
        <Check
          key={type}
          label={label}
          checked={chosen.includes(type)}
          onChange={(isChosen) => onChoose(isChosen ? [...chosen, type] : chosen.filter((one) => one !== type))}
        />
      ))}
    </fieldset>
  );
}

export const ALL_TYPES = ITEM_TYPES.map(([type]) => type);
