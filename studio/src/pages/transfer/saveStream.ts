/**
 * A response as a file. Where the browser can write files, it is written as it arrives; elsewhere it is gathered in the
 * browser's memory first.
 */

interface FileTarget {
  createWritable: () => Promise<WritableStream<Uint8Array>>;
}

declare global {
  interface Window {
    showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileTarget>;
  }
}

/** @returns the number of bytes; undefined when no file was chosen. */
export async function saveStream(
  name: string,
  load: () => Promise<Response>,
  onReceived: (bytes: number) => void,
): Promise<number | undefined> {
  const target = await chooseFile(name);
  if (target === "cancelled") return undefined;
  const response = await load();
  let received = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      received += chunk.length;
      onReceived(received);
      controller.enqueue(chunk);
    },
  });
  const stream = (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(counter);
  if (target) {
    await stream.pipeTo(await target.createWritable());
  } else {
    const blob = await new Response(stream).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }
  return received;
}

async function chooseFile(name: string): Promise<FileTarget | "cancelled" | undefined> {
  if (!window.showSaveFilePicker) return undefined;
  try {
    return await window.showSaveFilePicker({ suggestedName: name });
  } catch (error) {
    // A page in a frame or an automated browser may not ask.
    return (error as Error).name === "AbortError" ? "cancelled" : undefined;
  }
}
