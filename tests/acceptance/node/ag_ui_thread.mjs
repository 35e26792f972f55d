// A thread of `@ag-ui/client`: it asks a server, answers the calls of the page's tools, and sends
// what it was sent.  With `goesOn` it asks the next question where a run failed.
import { answer } from './served.mjs';

const asker = (client) => async ({ url, questions, tool, goesOn = false }) => {
  const { HttpAgent } = await import(client);
  const agent = new HttpAgent({ url, threadId: 't' });
  const failed = new Set();
  let failure;
  const subscriber = { onRunErrorEvent: ({ event }) => void (failure = event.message) };
  for (const content of questions) {
    failure = undefined;
    let asked = [{ id: crypto.randomUUID(), role: 'user', content }];
    while (asked.length) {
      asked.forEach((message) => agent.addMessage(message));
      await agent.runAgent({}, subscriber);
      if (failure !== undefined && !goesOn) throw new Error(failure);
      const answered = new Set(agent.messages.map(({ toolCallId }) => toolCallId));
      asked = agent.messages
        .flatMap(({ toolCalls }) => toolCalls ?? [])
        .filter(({ id }) => !answered.has(id) && !failed.has(id));
      if (failure !== undefined) {
        asked.forEach(({ id }) => failed.add(id)); // nobody executes calls of a failed run
        break;
      }
      asked = asked
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
