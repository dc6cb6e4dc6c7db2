/** Two texts side by side, with what differs. */

import "./editor.css";

import { MergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";

import { editorSetup } from "./editor";

interface DiffViewProps {
  before: string;
  after: string;
  beforeLabel: string;
  afterLabel: string;
}

export function DiffView({ before, after, beforeLabel, afterLabel }: DiffViewProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return undefined;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    root.append(parent);
    const side = (doc: string, label: string) => ({
      doc,
      extensions: [
        editorSetup({ language: "json", label, readOnly: true, small: false, plain: false }),
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
      ],
    });
    const view = new MergeView({
      a: side(before, beforeLabel),
      b: side(after, afterLabel),
      parent,
      root,
      collapseUnchanged: { margin: 3, minSize: 6 },
    });
    return () => {
      view.destroy();
      parent.remove();
    };
  }, [before, after, beforeLabel, afterLabel]);
  return <div ref={host} className="diff-view" />;
}
