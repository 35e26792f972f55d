// A thread of `@ag-ui/client`: it asks a server, answers the calls of the page's tools, and sends
// what it was sent.
import { answer } from './served.mjs';

const asker = (client) => async ({ url, questions, tool }) => {
  const { HttpAgent } = await import(client);
  const agent = new HttpAgent({ url, threadId: 't' });
  let failure;
  const subscriber = { onRunErrorEvent: ({ event }) => void (failure = event.message) };
  for (const content of questions) {
    let asked = [{ id: crypto.randomUUID(), role: 'user', content }];
    while (asked.length) {
      asked.forEach((message) => agent.addMessage(message));
      await agent.runAgent({}, subscriber);
      if (failure !== undefined) throw new Error(failure);
      const answered = new Set(agent.messages.map(({ toolCallId }) => toolCallId));
      asked = agent.messages
        .flatMap(({ toolCalls }) => toolCalls ?? [])
        .filter(({ id }) => !answered.has(id))
        .map(({ id, function: { arguments: text } }) => ({
          id: crypto.randomUUID(),
          role: 'tool',
          toolCallId: id,
          content: `${tool} of ${JSON.parse(text).city}`,
        }));
    }
  }
  return { messages: agent.messages };
};

console.warn = () => {};
await answer({ 0: asker('ag-ui-client-0'), 1: asker('ag-ui-client-1') });
