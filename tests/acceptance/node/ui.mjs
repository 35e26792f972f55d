// The AI SDK's own readers of a UI message stream: what `useChat` makes of the bytes.
import { createInterface } from 'node:readline';

const readers = { ai5: 'ai5', ai6: 'ai6', ai7: 'ai' };
const { DefaultChatTransport, readUIMessageStream } = await import(readers[process.argv[2]]);
console.warn = () => {};

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await read(JSON.parse(line))));
}

async function read({ body }) {
  const said = { parts: [], calls: [], types: [] };
  try {
    const headers = { 'content-type': 'text/event-stream' };
    const fetch = async () => new Response(body, { headers });
    const transport = new DefaultChatTransport({ fetch });
    const chunks = await transport.sendMessages({
      chatId: 'c',
      messages: [],
      trigger: 'submit-message',
    });
    const watched = chunks.pipeThrough(
      new TransformStream({
        transform(chunk, out) {
          said.types.push(chunk.type);
          if (chunk.type === 'finish') said.finish = chunk.finishReason;
          if (chunk.type === 'error') said.failure = chunk.errorText;
          // What fires `onToolCall`.
          if (chunk.type === 'tool-input-available' && !chunk.providerExecuted)
            said.calls.push(chunk.toolCallId);
          out.enqueue(chunk);
        },
      }),
    );
    const onError = (error) => (said.error ??= String(error));
    for await (const message of readUIMessageStream({ stream: watched, onError })) {
      Object.assign(said, {
        id: message.id,
        metadata: message.metadata,
        parts: structuredClone(message.parts),
      });
    }
  } catch (error) {
    said.error = String(error);
  }
  return said;
}
