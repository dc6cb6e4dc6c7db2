/** Small controls that every page uses. */

import "./controls.css";

import { type ButtonHTMLAttributes, type ReactNode, useId, useState } from "react";

import { ApiError } from "../api/client";
import { Icon, type IconName } from "./icons";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  icon?: IconName;
  kind?: "primary" | "quiet";
  danger?: boolean;
  small?: boolean;
  /** The name of a button that shows its icon only. */
  label?: string;
}

export function Button({ icon, kind, danger, small, label, children, className = "", ...rest }: ButtonProps) {
  const classes = ["button", kind, danger && "danger", small && "small", label && "icon", className];
  return (
    <button type="button" aria-label={label} title={label} {...rest} className={classes.filter(Boolean).join(" ")}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Badge({ tone, children, dot }: { tone?: "good" | "warn" | "bad" | "info"; children: ReactNode; dot?: boolean }) {
  return (
    <span className={`badge ${tone ?? ""}`}>
      {dot && <span className="dot" />}
      {children}
    </span>
  );
}

interface FieldProps {
  label: string;
  hint?: ReactNode;
  problem?: string | null;
  children: (ids: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ReactNode;
}

/** A control with its label, a hint and what is wrong with it. */
export function Field({ label, hint, problem, children }: FieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label}
      </label>
      {children({ id, "aria-describedby": `${id}-note`, "aria-invalid": Boolean(problem) })}
      <div id={`${id}-note`} className={problem ? "problem" : "hint"}>
        {problem ?? hint}
      </div>
    </div>
  );
}

export function Check({ label, checked, onChange }: { label: ReactNode; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} />
      {label}
    </label>
  );
}

interface EmptyProps {
  icon: IconName;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}

/** What a page shows when there is nothing yet: what would be here, and how to get it. */
export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <div className="empty">
      <Icon name={icon} className="mark" />
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** What happened, what it means, and the details on demand. */
export function Problem({ error, doing, action }: { error: unknown; doing: string; action?: ReactNode }) {
  // The server repeats the query after what is wrong with it.
  const message = (error instanceof Error ? error.message : String(error)).split("\nQuery: \n")[0] ?? "";
  const details = error instanceof ApiError ? error.details : "";
  return (
    <div className="notice bad" role="alert">
      <Icon name="warning" />
      <div className="grow stack">
        <div>
          <div className="title">{doing} failed</div>
          <div style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{message}</div>
        </div>
        {error instanceof ApiError && error.status === 403 && (
          <p className="soft">Your certificate does not have the clearance for it. Ask an administrator of this server.</p>
        )}
        {details !== "" && details !== message && (
          <details>
            <summary>Details</summary>
            <pre>{details}</pre>
          </details>
        )}
        {action && <div>{action}</div>}
      </div>
    </div>
  );
}

export function Skeleton({ width }: { width: number | string }) {
  return <span className="skeleton" style={{ width }} aria-hidden="true" />;
}

export function CopyButton({ text, label = "Copy", small = true }: { text: string | (() => string); label?: string; small?: boolean }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : text());
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <Button kind="quiet" small={small} icon={isCopied ? "check" : "copy"} onClick={() => void copy()}>
      {isCopied ? "Copied" : label}
    </Button>
  );
}

/** A moment, as people say it, with the exact time on hover. */
export function Moment({ at, shown }: { at: string; shown: string }) {
  return (
    <time dateTime={at} title={at}>
      {shown}
    </time>
  );
}
