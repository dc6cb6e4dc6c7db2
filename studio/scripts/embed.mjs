// Compresses the files of `dist` into the folder that becomes part of the server (crates/studio_files), with a
// manifest: a line per file, its hash and its path. The manifest is written last, so that a half-written folder is an
// empty one to the server's build.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const from = join(root, "dist");
const to = join(root, "..", "crates", "studio_files", "built");

/** Browsers may need no more than this to show the first page. */
const FIRST_LOAD_BYTES_MAX = 350 * 1024;

const hash = (content) => createHash("sha256").update(content).digest("hex").slice(0, 32);

function filesIn(folder, prefix = "") {
  return readdirSync(join(folder, prefix)).sort().flatMap((name) => {
    const path = posix.join(prefix, name);
    return statSync(join(folder, path)).isDirectory() ? filesIn(folder, path) : [path];
  });
}

function compressed(content) {
  const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length } };
  return { br: brotliCompressSync(content, brotli), gz: gzipSync(content, { level: 9 }) };
}

/** The scripts that the page names itself: the entry and what it imports at once. */
function firstScripts() {
  const page = readFileSync(join(from, "index.html"), "utf8");
  return [...page.matchAll(/(?:src|href)="\/studio\/([^"]+\.js)"/g)].map((match) => match[1]);
}

function main() {
  const paths = filesIn(from).filter((path) => !path.startsWith("."));
  const manifest = [];
  const sizes = new Map();
  for (const name of readdirSync(to)) {
    if (name !== ".gitignore") rmSync(join(to, name), { recursive: true });
  }
  for (const path of paths) {
    const content = readFileSync(join(from, path));
    mkdirSync(dirname(join(to, path)), { recursive: true });
    const coded = compressed(content);
    for (const [suffix, bytes] of Object.entries(coded)) writeFileSync(join(to, `${path}.${suffix}`), bytes);
    manifest.push(`${hash(content)} ${path}\n`);
    sizes.set(path, { plain: content.length, br: coded.br.length, gz: coded.gz.length });
  }
  const first = firstScripts().map((path) => sizes.get(path));
  const total = (coding, of) => of.reduce((sum, size) => sum + size[coding], 0);
  const kb = (bytes) => `${(bytes / 1024).toFixed(1)} kB`;
  console.log(`first load: ${kb(total("gz", first))} gzip, ${kb(total("br", first))} brotli of scripts`);
  console.log(`everything: ${paths.length} files, ${kb(total("br", [...sizes.values()]))} brotli`);
  if (first.length === 0 || total("gz", first) > FIRST_LOAD_BYTES_MAX) {
    throw new Error(`the first load may take ${kb(FIRST_LOAD_BYTES_MAX)} of scripts`);
  }
  writeFileSync(join(to, "manifest.txt"), manifest.join(""));
}

main();
