// What `@ag-ui/client` makes of a run: its messages, its events, its end.
import { answer, fetchOf } from './served.mjs';

const reader = (client) => async ({ body, threadId = 't', runId = 'r', messages = [] }) => {
  const { HttpAgent } = await import(client);
  globalThis.fetch = fetchOf(body);
  const agent = new HttpAgent({ url: 'http://t/', threadId, initialMessages: messages });
  const heard = { events: [], error: null };
  const subscriber = {
    onEvent: ({ event }) => void heard.events.push(event.type),
    onRunErrorEvent: ({ event }) => void (heard.error = [event.message, event.code]),
    onRunFinishedEvent: ({ event }) => void (heard.finished = event),
  };
  await agent.runAgent({ runId }, subscriber);
  return { ...heard, messages: agent.messages };
};

console.warn = console.error = () => {}; // which name unknown keys, and runs that fail
await answer({ 0: reader('ag-ui-client-0'), 1: reader('ag-ui-client-1') });
