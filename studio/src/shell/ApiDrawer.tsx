/** The requests that the pages have sent, each as a command to repeat it. */

import { useSyncExternalStore } from "react";

import { type Exchange, exchangeLog } from "../api/client";
import { CopyButton, Empty } from "../components/controls";
import { curl } from "../domain/copyAs";
import { duration } from "../domain/units";
import { Drawer } from "./Drawer";

export function ApiDrawer({ open, onClose }: { open: boolean; onClose: () => void }) {
  const exchanges = useSyncExternalStore(exchangeLog.subscribe, exchangeLog.read);
  return (
    <Drawer title="Requests behind this page" open={open} onClose={onClose}>
      {exchanges.length === 0 && <Empty icon="api" title="No requests yet" />}
      {exchanges.map((exchange) => (
        <ExchangeItem key={exchange.id} exchange={exchange} />
      ))}
    </Drawer>
  );
}

function ExchangeItem({ exchange }: { exchange: Exchange }) {
  const { method, url, body, status, milliseconds } = exchange;
  const command = curl(location.origin, method, url, body);
  return (
    <details className="exchange">
      <summary>
        <span className="method">{method}</span>
        <span className="ellipsis">{url}</span>
        <span>{status === undefined ? "…" : status === 0 ? "no answer" : status}</span>
        <span className="faint">{milliseconds === undefined ? "" : duration(milliseconds)}</span>
      </summary>
      <div className="body">
        <pre>{command}</pre>
        <div>
          <CopyButton text={command} label="Copy as curl" />
        </div>
      </div>
    </details>
  );
}
