// The client under test: CORVUS_NODE_CLIENT names the installed package (`ravendb` or `ravendb7`), so that one suite
// covers both.

const imported = await import(process.env.CORVUS_NODE_CLIENT ?? "ravendb");
export const client = imported.default?.DocumentStore ? imported.default : imported;

/** Whether an error is that of a broken connection, which the client has passed on instead of trying another node. */
export function isPassedOn(error) {
  return error.name === "RavenException" && error.message.startsWith("An exception occurred while contacting");
}
