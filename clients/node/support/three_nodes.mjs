// Three servers of the executable CORVUS_TEST_SERVER, which are one cluster. Each is a process of its own that can be
// killed, paused and started again on its address and data.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const executable = process.env.CORVUS_TEST_SERVER;
if (!executable) throw new Error("CORVUS_TEST_SERVER is not set; start the tests through clients/run");
const secondsMax = 60;

class Node {
  constructor(folder, number) {
    this.data = join(folder, `node-${number}`);
    this.log = `${this.data}.log`;
    this.url = "http://127.0.0.1:0";
  }

  async start() {
    const output = openSync(this.log, "a");
    const before = readFileSync(this.log, "utf8").length;
    const options = [`--ServerUrl=${this.url}`, `--DataDir=${this.data}`, "--Setup.Mode=None"];
    this.process = spawn(executable, options, { stdio: ["ignore", output, output] });
    closeSync(output);
    await until(`the start of ${this.data}`, () => {
      if (this.process.exitCode !== null) throw new Error(`a server has ended: ${this.data}`);
      const available = /^Server available on: *(http\S+)/m.exec(readFileSync(this.log, "utf8").slice(before));
      if (available) this.url = available[1];
      return available;
    });
  }

  async kill() {
    this.process.kill("SIGKILL");
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, "exit");
  }

  pause() {
    this.process.kill("SIGSTOP");
  }

  resume() {
    this.process.kill("SIGCONT");
  }

  /** The body of a response in JSON; undefined if there is no successful one. */
  async get(path) {
    const response = await fetch(this.url + path, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
    return response?.ok ? response.json() : undefined;
  }
}

export class ThreeNodes {
  /** Starts a cluster with this database on all three. */
  static async start(database) {
    const cluster = new ThreeNodes();
    cluster.folder = mkdtempSync(join(tmpdir(), "corvus-three-"));
    cluster.nodes = [1, 2, 3].map((number) => new Node(cluster.folder, number));
    await Promise.all(cluster.nodes.map((node) => node.start()));
    const options = ["cluster", "add", ...cluster.urls, `--database=${database}`];
    execFileSync(executable, options, { stdio: ["ignore", "ignore", "inherit"] });
    return cluster;
  }

  get urls() {
    return this.nodes.map((node) => node.url);
  }

  /** The node that leads, as one of the others or itself says; undefined while none does. */
  async leader() {
    for (const asked of this.nodes) {
      const topology = await asked.get("/cluster/topology");
      const url = topology?.Leader && topology.Topology.AllNodes[topology.Leader];
      if (url) return this.nodes.find((node) => node.url === url);
    }
    return undefined;
  }

  /** The node that clients of the database prefer: the first of its topology. */
  async preferred(database) {
    for (const asked of this.nodes) {
      const topology = await asked.get(`/topology?name=${database}`);
      const url = topology?.Nodes?.[0]?.Url;
      if (url) return this.nodes.find((node) => node.url === url);
    }
    return undefined;
  }

  /** Waits until every node leads or follows, and all are members of the database. */
  async healed(database) {
    await until("a cluster in which all take part", async () => {
      const all = await Promise.all(this.nodes.map((node) => node.get("/cluster/topology")));
      const leaders = new Set(all.map((topology) => topology?.Leader));
      const group = await this.nodes[0].get(`/topology?name=${database}`);
      const members = group?.Nodes?.filter((node) => node.ServerRole === "Member") ?? [];
      return leaders.size === 1 && !leaders.has(undefined) && !leaders.has(null) && members.length === 3;
    });
  }

  async end({ keep = false } = {}) {
    for (const node of this.nodes) {
      node.resume();
      await node.kill();
    }
    if (keep) console.error(`-- logs and data are kept in ${this.folder}`);
    else rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function until(what, condition, seconds = secondsMax) {
  for (const end = performance.now() + seconds * 1000; ; ) {
    const found = await condition();
    if (found) return found;
    if (end < performance.now()) throw new Error(`it takes too long: ${what}`);
    await sleep(50);
  }
}
