// How the scripts here are asked: a stream as a line of JSON on stdin, what an SDK makes of
// it as a line of JSON on stdout, one after the other.
import { createInterface } from 'node:readline';

const CHUNK_BYTES = 509; // a prime, so that it falls anywhere in frames and in characters

/** Return a `fetch` that answers every request with one stream, in chunks. */
export function fetchOf(body) {
  return async () => {
    const bytes = new TextEncoder().encode(body);
    let start = 0;
    const stream = new ReadableStream({
      pull(controller) {
        if (start >= bytes.length) return controller.close();
        controller.enqueue(bytes.slice(start, (start += CHUNK_BYTES)));
      },
    });
    return new Response(stream, { headers: { 'content-type': 'text/event-stream' } });
  };
}

/** Answer every line of stdin by the reader that the command line names. */
export async function answer(readers) {
  const read = readers[process.argv[2]];
  for await (const line of createInterface({ input: process.stdin })) {
    let said;
    try {
      said = await read(JSON.parse(line));
    } catch (error) {
      // The SDK of Anthropic tells the error that came, not its words.
      said = { error: `${error.name}: ${error.error?.error?.message ?? error.message}` };
    }
    process.stdout.write(`${JSON.stringify(said)}\n`);
  }
}

/** Return JSON text as its value, or as it is where it is none. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
