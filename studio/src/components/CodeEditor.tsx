/**
 * CodeMirror as a component. It lives in a shadow root, where its styles are constructed style sheets: the server's
 * policy refuses style elements.
 */

import "./editor.css";

import { forEachDiagnostic, setDiagnostics } from "@codemirror/lint";
import { Annotation, EditorState, type Extension, Prec } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { useEffect, useRef } from "react";

import { type Language, PLAIN_LENGTH_MIN, editorSetup } from "./editor";

export interface EditorProblem {
  /** Offset in the text. */
  at: number;
  message: string;
}

interface CodeEditorProps {
  value: string;
  onChange?: (value: string) => void;
  language: Language;
  label: string;
  readOnly?: boolean;
  small?: boolean;
  /** Fixed when the editor appears. */
  extensions?: Extension;
  problem?: EditorProblem | undefined;
  /** Ctrl+Enter. */
  onRun?: () => void;
  /** Ctrl+S. */
  onSave?: () => void;
  className?: string;
}

/** Marks a change that the page made. */
const fromPage = Annotation.define<boolean>();

export function CodeEditor(props: CodeEditorProps) {
  const { value, language, label, readOnly = false, small = false, problem, className = "" } = props;
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView>(undefined);
  // Texts that the page was told of and has not passed back yet: it may be slower than the keyboard.
  const told = useRef<string[]>([]);
  const seen = useRef(value);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    if (!host.current) return undefined;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    parent.style.height = "100%";
    root.append(parent);
    const { current } = latest;
    const run = (handler: (() => void) | undefined) => {
      handler?.();
      return handler !== undefined;
    };
    const state = EditorState.create({
      doc: current.value,
      extensions: [
        Prec.highest(
          keymap.of([
            { key: "Mod-Enter", run: () => run(latest.current.onRun) },
            { key: "Mod-s", run: () => run(latest.current.onSave), preventDefault: true },
          ]),
        ),
        editorSetup({ language, label, readOnly, small, plain: current.value.length > PLAIN_LENGTH_MIN }),
        current.extensions ?? [],
        EditorView.updateListener.of((update) => {
          const isFromPage = update.transactions.some((transaction) => transaction.annotation(fromPage));
          if (!update.docChanged || isFromPage || !latest.current.onChange) return;
          const text = update.state.doc.toString();
          told.current.push(text);
          latest.current.onChange(text);
        }),
      ],
    });
    const view = new EditorView({ state, parent, root });
    editor.current = view;
    return () => {
      view.destroy();
      parent.remove();
      editor.current = undefined;
    };
  }, [language, label, readOnly, small]);

  useEffect(() => {
    const view = editor.current;
    const isNew = seen.current !== value;
    seen.current = value;
    if (told.current.at(-1) === value) {
      told.current = [];
      return;
    }
    if (!view || !isNew) return;
    const echo = told.current.lastIndexOf(value);
    if (echo >= 0) {
      told.current.splice(0, echo + 1);
      return;
    }
    told.current = [];
    if (view.state.doc.toString() === value) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value }, annotations: fromPage.of(true) });
  });

  useEffect(() => {
    const view = editor.current;
    if (!view) return;
    let hasProblems = false;
    forEachDiagnostic(view.state, () => {
      hasProblems = true;
    });
    if (!problem && !hasProblems) return;
    const from = Math.min(problem?.at ?? 0, view.state.doc.length);
    const word = view.state.wordAt(from);
    const to = word && word.to > from ? word.to : Math.min(from + 1, view.state.doc.length);
    const found = problem ? [{ from: Math.min(from, to), to, severity: "error" as const, message: problem.message }] : [];
    view.dispatch(setDiagnostics(view.state, found));
  }, [problem]);

  return <div ref={host} className={`code-editor ${className}`} />;
}
