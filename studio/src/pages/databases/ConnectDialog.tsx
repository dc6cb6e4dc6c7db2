/** The program that connects an application to a database, in four languages. */

import { Tabs } from "@base-ui/react/tabs";

import { Button, CopyButton } from "../../components/controls";
import { Dialog } from "../../components/dialogs";
import { CLIENTS, copyAs } from "../../domain/copyAs";

export function ConnectDialog({ database, onClose }: { database: string; onClose: () => void }) {
  const of = { serverUrl: location.origin, database, query: "from @all_docs limit 10", parameters: undefined };
  return (
    <Dialog open wide title={`Connect an application to ${database}`} onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      <p className="soft">
        RavenDB’s client libraries work unchanged. {location.protocol === "https:" && "This server asks for a certificate: give the store one that is registered here. "}
        This program reads the first ten documents.
      </p>
      <Tabs.Root defaultValue={CLIENTS[0]?.language}>
        <Tabs.List className="tabs" aria-label="Languages">
          {CLIENTS.map(({ language }) => (
            <Tabs.Tab key={language} value={language} className="tab">
              {language}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {CLIENTS.map(({ language, install }) => {
          const program = copyAs(language, of);
          return (
            <Tabs.Panel key={language} value={language} className="connect" tabIndex={-1}>
              <div className="spread">
                <code>{install}</code>
                <CopyButton text={program} label="Copy program" />
              </div>
              <pre tabIndex={0} role="region" aria-label={`Program in ${language}`}>
                {program}
              </pre>
            </Tabs.Panel>
          );
        })}
      </Tabs.Root>
    </Dialog>
  );
}
