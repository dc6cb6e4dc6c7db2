/** How editors look and what they understand. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { javascript } from "@codemirror/lang-javascript";
import {
  HighlightStyle,
  StreamLanguage,
  bracketMatching,
  foldGutter,
  foldKeymap,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { csharp } from "@codemirror/legacy-modes/mode/clike";
import { lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { rql } from "./rqlLanguage";

export type Language = "json" | "rql" | "csharp" | "javascript" | "text";

const LANGUAGES: Record<Language, () => Extension> = {
  json: () => json(),
  rql: () => rql(),
  csharp: () => StreamLanguage.define(csharp),
  javascript: () => javascript(),
  text: () => [],
};

/** Longer texts are shown without colours and folding: an editor that answers is worth more. */
export const PLAIN_LENGTH_MIN = 1_000_000;

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--bg-raised)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "var(--bg-sunken)", color: "var(--text-faint)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--bg-hover) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 24%, transparent)",
  },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 12%, transparent)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: "transparent",
    outline: "1px solid var(--line-strong)",
  },
  ".cm-tooltip": { backgroundColor: "var(--bg-raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "4px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--bg-active)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--text-faint)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-panels": { backgroundColor: "var(--bg-sunken)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-textfield, .cm-button": { backgroundColor: "var(--bg-raised)", backgroundImage: "none", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "4px" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--bg-hover)", border: "0", color: "var(--text-faint)", padding: "0 6px" },
  ".cm-diagnostic": { padding: "6px 10px", maxWidth: "640px", whiteSpace: "pre-wrap" },
  ".cm-collapsedLines": { background: "var(--bg-sunken)", color: "var(--text-soft)", padding: "4px 8px" },
  // The library's marks are in few fonts.
  ".cm-collapsedLines::before, .cm-collapsedLines::after": { content: "'…'" },
  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--good-bg) !important" },
  ".cm-deletedChunk, .cm-deletedLine": { backgroundColor: "var(--bad-bg) !important" },
  ".cm-changedText": { background: "color-mix(in srgb, var(--good) 28%, transparent) !important" },
  ".cm-deletedChunk .cm-deletedText, .cm-deletedText": {
    background: "color-mix(in srgb, var(--bad) 28%, transparent) !important",
  },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.special(tags.variableName)], color: "var(--code-key)" },
]);

interface Setup {
  language: Language;
  label: string;
  readOnly: boolean;
  /** Shown without line numbers: a field rather than a page. */
  small: boolean;
  plain: boolean;
}

/** Everything but what the user of an editor adds. */
export function editorSetup({ language, label, readOnly, small, plain }: Setup): Extension {
  return [
    theme,
    syntaxHighlighting(colours),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    EditorState.allowMultipleSelections.of(true),
    EditorState.readOnly.of(readOnly),
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
    EditorView.lineWrapping,
    small ? [] : lineNumbers(),
    small || readOnly ? [] : highlightActiveLine(),
    plain ? [] : [LANGUAGES[language](), small ? [] : foldGutter(), bracketMatching(), indentOnInput(), closeBrackets()],
    readOnly ? [] : autocompletion(),
    highlightSelectionMatches(),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...foldKeymap,
      ...completionKeymap,
      ...lintKeymap,
    ]),
  ];
}
