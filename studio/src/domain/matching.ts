/** Whether the letters of `text` are in `label` in this order, in any case. */
export function matches(label: string, text: string): boolean {
  const wanted = text.toLowerCase().replaceAll(/\s+/g, "");
  let at = 0;
  const letters = label.toLowerCase();
  for (const letter of wanted) {
    at = letters.indexOf(letter, at) + 1;
    if (at === 0) return false;
  }
  return true;
}
