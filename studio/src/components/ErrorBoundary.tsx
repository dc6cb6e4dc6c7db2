/** Catches what a page throws while it is drawn, so that the rest of the Studio stays usable. */

import { Component, type ReactNode } from "react";

import { Button, Problem } from "./controls";

export class ErrorBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <div className="page">
        <Problem
          error={this.state.error}
          doing="Showing this page"
          action={<Button onClick={() => location.reload()}>Reload</Button>}
        />
      </div>
    );
  }
}
