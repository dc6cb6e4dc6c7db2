/** The server of the journeys: one for each worker, with an empty data directory. */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const START_SECONDS_MAX = 60;

export class Server {
  private process: ChildProcess | undefined;
  private readonly data = mkdtempSync(join(tmpdir(), "corvus-studio-"));
  url = "http://127.0.0.1:0";

  static async start(): Promise<Server> {
    const server = new Server();
    await server.run();
    return server;
  }

  /** On the same address after the first time. */
  async run(): Promise<void> {
    const executable = process.env.CORVUS_TEST_SERVER;
    if (!executable) throw new Error("set CORVUS_TEST_SERVER");
    const extra = process.env.CORVUS_STUDIO_PATH ? [`--Studio.Path=${process.env.CORVUS_STUDIO_PATH}`] : [];
    const options = [`--ServerUrl=${this.url}`, `--DataDir=${this.data}`, "--Setup.Mode=None", "--License.Eula.Accepted=true", "--Logs.Mode=None"];
    const child = spawn(executable, [...options, ...extra], { stdio: ["ignore", "pipe", "inherit"] });
    this.process = child;
    this.url = await new Promise<string>((resolve, reject) => {
      let printed = "";
      const timer = setTimeout(() => reject(new Error(`the server did not start:\n${printed}`)), START_SECONDS_MAX * 1000);
      child.stdout?.on("data", (piece: Buffer) => {
        printed += piece.toString();
        const found = /Server available on: *(http\S*\d)/.exec(printed)?.[1];
        if (found) {
          clearTimeout(timer);
          resolve(found);
        }
      });
      child.on("exit", () => reject(new Error(`the server ended:\n${printed}`)));
    });
  }

  /** Ends the process at once, as a crash does. */
  async kill(): Promise<void> {
    await this.end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.end("SIGTERM");
    rmSync(this.data, { recursive: true, force: true });
  }

  private end(signal: NodeJS.Signals): Promise<void> {
    const child = this.process;
    this.process = undefined;
    return new Promise((resolve) => {
      if (!child || child.exitCode !== null) return resolve();
      child.removeAllListeners("exit");
      child.on("exit", () => resolve());
      child.kill(signal);
    });
  }

  async request(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<unknown> {
    const init: RequestInit = { method, headers: { "Content-Type": "application/json", ...headers } };
    if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(this.url + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** A database with a name of its own. */
  async createDatabase(prefix: string, withSamples = false): Promise<string> {
    const name = `${prefix}-${Math.random().toString(36).slice(2, 8)}`;
    await this.request("PUT", `/admin/databases?name=${name}`, { DatabaseName: name });
    if (withSamples) await this.request("POST", `/databases/${name}/studio/sample-data`);
    return name;
  }

  put(database: string, id: string, document: unknown): Promise<unknown> {
    return this.request("PUT", `/databases/${database}/docs?id=${encodeURIComponent(id)}`, document);
  }

  async load(database: string, id: string): Promise<Record<string, unknown>> {
    const found = (await this.request("GET", `/databases/${database}/docs?id=${encodeURIComponent(id)}`)) as {
      Results: Record<string, unknown>[];
    };
    return found.Results[0] ?? {};
  }
}
