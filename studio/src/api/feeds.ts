/** Live feeds: WebSockets that come back by themselves. */

/** `refused`: it has never been made, and is not tried any more. */
export type FeedState = "connecting" | "open" | "lost" | "refused";

export interface FeedOptions {
  /** Sent whenever the connection is made. */
  greeting?: unknown[];
  onMessage: (message: unknown) => void;
  onState?: (state: FeedState) => void;
}

const RETRY_MILLISECONDS_MIN = 500;
const RETRY_MILLISECONDS_MAX = 10_000;
/** A feed that has never been open is not tried more often: whoever may not have it will not get it. */
const FIRST_TRIES_MAX = 3;

/** Opens a feed. The result closes it. */
export function openFeed(path: string, options: FeedOptions): () => void {
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wait = RETRY_MILLISECONDS_MIN;
  let isClosed = false;
  let hasBeenOpen = false;
  let tries = 0;

  const connect = () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    options.onState?.("connecting");
    tries += 1;
    socket = new WebSocket(`${scheme}://${location.host}${path}`);
    socket.onopen = () => {
      wait = RETRY_MILLISECONDS_MIN;
      hasBeenOpen = true;
      options.onState?.("open");
      for (const message of options.greeting ?? []) socket?.send(JSON.stringify(message));
    };
    socket.onmessage = (event) => {
      const text = String(event.data).trim();
      if (text !== "") options.onMessage(JSON.parse(text));
    };
    socket.onclose = () => {
      if (isClosed) return;
      if (!hasBeenOpen && tries >= FIRST_TRIES_MAX) {
        options.onState?.("refused");
        return;
      }
      options.onState?.(hasBeenOpen ? "lost" : "connecting");
      timer = setTimeout(connect, wait);
      wait = Math.min(wait * 2, RETRY_MILLISECONDS_MAX);
    };
  };
  connect();
  return () => {
    isClosed = true;
    clearTimeout(timer);
    socket?.close();
  };
}
