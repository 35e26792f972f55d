// The chat of `useChat` without React: it asks a server, answers the calls of the page's tools,
// and sends what it was sent.  With `goesOn` it asks the next question where an answer failed.
// With `resumed`, the id of a chat, it is a page that was loaded again.
import { answer } from './served.mjs';

/** Return a chat whose state is held in an object. */
async function newChat(version, api, tool, id) {
  const sdk = await import(version);
  const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } = sdk;
  class Chat extends AbstractChat {}
  const state = {
    status: 'ready',
    error: undefined,
    messages: [],
    pushMessage: (message) => void state.messages.push(message),
    popMessage: () => void state.messages.pop(),
    replaceMessage: (index, message) => void (state.messages[index] = message),
    snapshot: structuredClone,
  };
  const chat = new Chat({
    id,
    state,
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall: { toolName, toolCallId, input } }) {
      chat.addToolOutput({ tool: toolName, toolCallId, output: tool(input) });
    },
  });
  return chat;
}

const asker = (version) => async ({ url, questions = [], tool, goesOn = false, resumed }) => {
  const chat = await newChat(version, url, (input) => `${tool} of ${input.city}`, resumed);
  if (resumed) await chat.resumeStream();
  for (const text of questions) {
    await chat.sendMessage({ text });
    // The next request is sent behind the end of the stream.
    let isIdle = false;
    while (!isIdle) {
      isIdle = chat.status === 'ready' || chat.status === 'error';
      await new Promise((resolve) => setTimeout(resolve, 20));
      isIdle &&= chat.status === 'ready' || chat.status === 'error';
    }
    if (chat.error && !goesOn) throw chat.error;
  }
  return { messages: chat.messages };
};

console.warn = () => {};
await answer({ ai5: asker('ai5'), ai6: asker('ai6'), ai7: asker('ai') });
